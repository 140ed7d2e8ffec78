"""Small classifiers that add up scores, with random weights."""

import torch

from certify.words.score_certifiers import ScoreModel
from layers.ngram_scores import GRID, NgramScores
from layers.window_net import WindowNetSettings
from text import Vocabulary, WordSettings, WordTokenizer

WORDS = ("a", "ab", "b", "good", "fine", "great", "film", "movie", "bad", "poor", "the", "is")
LISTS = {
    "good": ["fine", "great", "bad"],
    "film": ["movie", "the", "unknown"],
    "is": ["a", "b"],
    "the": ["poor"],
}


def score_model(
    width: int = 1, *, classes: int = 2, seed: int = 0, split: str = "ascii", max_length: int = 32
) -> ScoreModel:
    """Scores are multiples of 1/8, so that ties are met, too."""
    random = torch.Generator().manual_seed(seed)
    tokenizer = WordTokenizer(
        Vocabulary(dict.fromkeys(WORDS, 1)),
        max_length=max_length,
        words=WordSettings(split=split),  # type: ignore[arg-type] # of its choices
    )
    size = tokenizer.vocab_size
    grams = [
        (3 + torch.randperm((size - 3) ** order, generator=random)[:60])
        for order in range(2, width + 1)
    ]
    rows = [
        torch.stack([3 + gram // (size - 3) ** place % (size - 3) for place in range(order)], dim=1)
        for order, gram in enumerate(grams, start=2)
    ]
    rows = [torch.unique(row, dim=0) for row in rows]
    scores = NgramScores(size, classes, counts=[len(row) for row in rows])
    scores.set_ngrams(rows)
    with torch.no_grad():
        for parameter in scores.parameters():
            drawn = torch.randint(-8, 9, parameter.shape, generator=random)
            parameter.copy_(drawn / 8)
    assert GRID <= 1 / 8
    return ScoreModel(scores.eval().requires_grad_(requires_grad=False), tokenizer)


def net_model(
    window: int = 2, *, classes: int = 2, seed: int = 0, max_length: int = 32
) -> ScoreModel:
    """A net over windows, with few different weights, so that ties are met, too."""
    words = score_model(classes=classes, seed=seed, max_length=max_length)
    settings = WindowNetSettings(hidden=5, width=3)
    scores = NgramScores(words.scores.size, classes, window=window, net=settings)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in scores.parameters():
            drawn = torch.randint(-4, 5, parameter.shape, generator=random)
            parameter.copy_(drawn / 4)
        scores.words.copy_(words.scores.words)
    return ScoreModel(scores.eval().requires_grad_(requires_grad=False), words.tokenizer)
