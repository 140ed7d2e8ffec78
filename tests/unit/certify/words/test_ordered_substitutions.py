"""Perturbation sets and models that read the order of words, by brute force on raw strings."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from certify.bound_propagation import RelaxedCertifier, RelaxedModel, ReplacedWords
from certify.intervals import HullCertifier, HullModel
from certify.threats import Substitutions, TextCertificate, Typos
from layers.interval_cnn import IntervalCNN
from lit_modules import TextCNN, WordScores
from lit_modules.shared.word_robustness import WordOptions, WordRobustness, worst_texts
from tests.unit.certify.models import classifier
from tests.unit.certify.words.test_substitutions import (
    FRONT,
    KS,
    TEXTS,
    Listed,
    Phrases,
    count_held,
    model,
    own_words,
    typos,
)
from text import WordTokenizer, collate

SETS = Substitutions(words=FRONT, sets=(Typos(FRONT), Listed()))
# "zz" and "qqq" have no score: no n-gram has them.
LONGER = (*TEXTS, "bad zz film at", "god qqq")


def changed(surface: str, word: str) -> set[str]:
    """All that a word may become, in raw strings."""
    return {*typos(word, splits=False), *Listed().replacements(surface)}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("window", "hidden"), [(2, 0), (2, 4), (3, 0), (3, 4)])
def test_ngrams_and_windows_equal_brute_force(window: int, hidden: int, classes: int) -> None:
    held = 0
    for seed in range(3):
        scorer = model(classes, seed, window=window, hidden=hidden, lean=seed)
        held += count_held(scorer, SETS, LONGER[:: 1 if window == 2 else 3], changed)
    assert held > 0


@pytest.mark.parametrize("k", [None, 1, 2])
@pytest.mark.parametrize(("window", "hidden"), [(2, 0), (3, 0), (2, 4)])
def test_the_worst_text_of_training_is_the_worst(window: int, hidden: int, k: int | None) -> None:
    scorer = model(3, window, window=window, hidden=hidden)
    # Words of the vocabulary: what training texts are.
    texts = ["good bat", "a god film", "go at", "bad"]
    table = WordOptions.of(SETS, scorer.tokenizer).table()
    batch = collate(scorer.tokenizer.encode(texts), pad_id=0)
    labels = torch.tensor([0, 1, 2, 0])
    found = worst_texts(scorer.scores, table[batch.input_ids], labels, k)
    for row, text in enumerate(texts):
        choices = [sorted({word, *changed(word, word)}) for word in own_words(scorer, text)]
        ids = [
            dict.fromkeys(scorer.tokenizer.ids([word, *choice]))
            for word, choice in zip(text.split(), choices, strict=True)
        ]
        own = scorer.tokenizer.ids(text.split())
        near = torch.tensor(
            [
                one
                for one in product(*ids)
                if k is None or sum(a != b for a, b in zip(one, own, strict=True)) <= k
            ]
        )
        logits = scorer.scores(near).sum(dim=1)
        for rival, at in zip([c for c in range(3) if c != labels[row]], range(2), strict=True):
            least = (logits[:, labels[row]] - logits[:, rival]).min()
            reached = scorer.scores(found[row, at][batch.mask[row]].unsqueeze(0))[0].sum(dim=0)
            assert reached[labels[row]] - reached[rival] == least


def check_sound(
    found: TextCertificate,
    tokenizer: WordTokenizer,
    predict: Callable[[torch.Tensor], torch.Tensor],
) -> int:
    """Compare a lower bound with all raw texts of the set; return how many numbers hold."""
    words = tokenizer.splitter.read(tokenizer.splitter.split(found.text))
    surfaces = SETS.split(found.text)
    rows = []
    for surface, word in zip(surfaces, words, strict=True):
        rows.append([*dict.fromkeys(tokenizer.ids([surface, *sorted(changed(surface, word))]))])
    for k, held in zip(KS, found.holds, strict=True):
        near = torch.tensor(
            [
                ids
                for ids in product(*rows)
                if k is None or sum(a != row[0] for a, row in zip(ids, rows, strict=True)) <= k
            ]
        )
        true = set(predict(near).tolist()) == {found.prediction}
        assert not held or true, (found.text, k)
        if found.kind == "exact":
            assert held == true
    if found.witness is not None:
        first = KS[found.holds.index(False)]
        assert SETS.at(first).contains(found.text, found.witness)
        (encoding,) = tokenizer.encode([found.witness])
        assert int(predict(torch.tensor([encoding.input_ids]))) != found.prediction
    return sum(found.holds[1:])


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_intervals_never_hold_where_a_raw_text_breaks_them(pooling: str) -> None:
    held, failed = 0, 0
    for seed in range(4):
        torch.manual_seed(seed)
        tokenizer = model(2, seed).tokenizer
        network = IntervalCNN(4, 6, 3, pooling=pooling).double()  # type: ignore[arg-type] # of both
        network.requires_grad_(requires_grad=False)
        vectors = torch.randn(tokenizer.vocab_size, 4).double()
        vectors = vectors[3] + 0.4 * vectors

        def predict(
            ids: torch.Tensor, network: nn.Module = network, vectors: torch.Tensor = vectors
        ) -> torch.Tensor:
            logits: torch.Tensor = network(vectors[ids], torch.ones_like(ids, dtype=torch.bool))
            return logits.argmax(dim=1)

        certifier = HullCertifier(HullModel(network, vectors, tokenizer), SETS)
        for found in certifier(LONGER, KS):
            number = check_sound(found, tokenizer, predict)
            held, failed = held + number, failed + 3 - number
    assert held > 0
    assert failed > 0


def test_attention_is_certified_against_sets() -> None:
    held, kinds = 0, set()
    for seed in range(2):
        torch.manual_seed(seed)
        tokenizer = model(2, seed).tokenizer
        bounds = ReplacedWords(classifier(1, seed=seed, classes=2).network)
        vectors = torch.randn(tokenizer.vocab_size, 8).double()
        vectors = vectors[3] + 0.5 * vectors

        def predict(
            ids: torch.Tensor, bounds: ReplacedWords = bounds, vectors: torch.Tensor = vectors
        ) -> torch.Tensor:
            return bounds.logits(vectors[ids]).argmax(dim=1)

        certifier = RelaxedCertifier(RelaxedModel(bounds, vectors.__getitem__, tokenizer), SETS)
        for found in certifier(TEXTS[:4], KS):
            held += check_sound(found, tokenizer, predict)
            kinds.add(found.kind)
    assert held > 0
    assert "exact" in kinds


def test_what_moves_words_is_refused_by_models_of_their_order() -> None:
    splits = Substitutions(words=FRONT, sets=(Phrases(),))
    message = "expected sets that replace a word by one"
    tokenizer = model(2, 0).tokenizer
    vectors = torch.zeros(tokenizer.vocab_size, 4)
    with pytest.raises(ValueError, match=message):
        HullCertifier(HullModel(IntervalCNN(4, 6, 2), vectors, tokenizer), splits)
    robustness = WordRobustness(against="typos-splits")
    settings: dict[str, Any] = {"words": FRONT, "robustness": robustness}
    for module in (WordScores(window=2, **settings), TextCNN(**settings)):
        with pytest.raises(ValueError, match=message):
            module.build_tokenizer(["a good film"])
    WordScores(window=1, words=FRONT, robustness=robustness).build_tokenizer(["a good film"])
