"""The cost of certificates in words relative to a prediction, and of training for them.

    python -m benchmarks.word_certificates [--lists FILE] [--file TEXTS]
        [--words 10000] [--texts 256]

Random scores of `--words` words and as many pairs of words, and a net over pairs with `--hidden`
hidden units, on random texts of `--length` words. With `--file` the texts are the first of that
file, a line each, cut to `--length` words; words and pairs are its most frequent ones.
Without `--lists` each word has 8 random candidates. Times are medians over rounds in which all
take turns, of the processor. A prediction splits the texts, looks the words up and adds their
scores; so does a certificate, which is for any number of words (`all`) or one character. Random
scores hold nowhere, so each certificate has a text with another answer, but in the row `if
certified`. A robust step of the net searches for the worst texts by paths, or bounds their scores
by intervals.

Certificates of other authors are measured, too: smoothing with 1,000 random texts around the sum of
scores of words (RanMASK), and bound propagation for one word of a text of `--moved` words, through
a Transformer with one layer of width 32 (`--bound propagation`, forward passes).
"""

import random
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.command import check_paths, command, heading, save, settings, table
from benchmarks.timing import median_seconds
from certify.bound_propagation import WordBalls, WordBallsCertifier
from certify.smoothing import SmoothedCertifier, Smoothing
from certify.threats import Characters, Synonyms
from certify.words.score_certifiers import CharacterCertifier, ScoreModel, SynonymCertifier
from layers.ngram_scores import NgramScores, ScoreSum
from layers.transformer import TransformerClassifier, TransformerLayers
from layers.window_net import WindowNetSettings
from lit_modules.shared.word_robustness import Search, least_leads, rivals, worst_texts
from text import Vocabulary, WordSettings, WordTokenizer, collate
from text.word_splitter import WordSplitter

ASCII = WordSettings(split="ascii")
_FEW = 8
"""Texts of a certificate against characters, which takes milliseconds for each."""


class Content(NamedTuple):
    """Texts to certify, words of a model, and pairs with scores; None for random ones."""

    texts: list[str]
    words: list[str]
    pairs: list[tuple[str, str]] | None


def content_of(file: Path, options: Namespace) -> Content:
    """Return the first texts of a file, its most frequent words, and as many pairs of them."""
    split = WordSplitter(ASCII).split
    with file.open(encoding="utf-8") as stream:
        rows = [split(line) for line in stream]
    count = Counter(word for row in rows for word in row)
    if not count:
        msg = f"got {file} without a word, expected texts, a line each"
        raise ValueError(msg)
    words = [word for word, _ in count.most_common(options.words)]
    vocabulary = set(words)
    counts = Counter(
        pair
        for row in rows
        for pair in pairwise(row)
        if pair[0] in vocabulary and pair[1] in vocabulary
    )
    pairs = [pair for pair, _ in counts.most_common(options.words)]
    return Content([" ".join(row[: options.length]) for row in rows[: options.texts]], words, pairs)


def model(
    words: Sequence[str],
    width: int,
    classes: int,
    *,
    hidden: int = 0,
    trained: bool = False,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> ScoreModel:
    """Return random scores of words, and of as many n-grams of each order up to a width.

    With hidden units a net over windows replaces the n-grams. The n-grams are random,
    or these pairs.
    """
    vocabulary = Vocabulary(dict.fromkeys(words, 1))
    tokenizer = WordTokenizer(vocabulary, max_length=512, words=ASCII)
    size, generator = tokenizer.vocab_size, torch.Generator().manual_seed(0)
    # A net has no tables of n-grams.
    orders = range(2, 2 if hidden else width + 1)
    grams = [
        torch.unique(torch.randint(3, size, (len(words), order), generator=generator), dim=0)
        for order in orders
    ]
    if pairs and grams:
        grams = [torch.tensor([tokenizer.vocabulary(pair) for pair in pairs])]
    torch.manual_seed(0)
    net = WindowNetSettings(hidden=hidden) if hidden else None
    counts = [len(rows) for rows in grams]
    scores = NgramScores(size, classes, counts=counts, window=width, net=net)
    scores.set_ngrams(grams)
    with torch.no_grad():
        for parameter in (scores.words, *scores.tables):
            # Random scores hold no certificate: each has a witness to build.
            parameter.normal_(generator=generator)
    return ScoreModel(scores if trained else scores.keep(), tokenizer)


def predict(scorer: ScoreModel, texts: Sequence[str]) -> Tensor:
    """Return `[B]` predictions of texts, read as a certifier reads them."""
    batch = collate(
        scorer.tokenizer.encode(list(texts)), pad_id=scorer.tokenizer.pad_id, pairs=False
    )
    with torch.no_grad():
        logits: Tensor = ScoreSum()(scorer.scores(batch.input_ids), batch.mask)
    return logits.argmax(dim=1)


def training(
    scorer: ScoreModel, threat: Synonyms, texts: Sequence[str], search: Search | None
) -> Callable[[], object]:
    """Return a step forward and back: on the texts alone, or on them and their worst texts."""
    scores, add = scorer.scores.train(), ScoreSum()
    tokens = scorer.tokenizer.vocabulary.get_itos()
    batch = collate(
        scorer.tokenizer.encode(list(texts)), pad_id=scorer.tokenizer.pad_id, pairs=False
    )
    rows = [scorer.tokenizer.vocabulary(threat.of_word(word)) for word in tokens]
    size = max(map(len, rows))
    candidates = torch.tensor([[*row, *row[:1] * (size - len(row))] for row in rows])[
        batch.input_ids
    ]
    labels = torch.arange(len(texts)) % scores.classes

    def step() -> object:
        loss = functional.cross_entropy(add(scores(batch.input_ids), batch.mask), labels)
        # Bounds on the leads instead of their worst texts.
        if search == "intervals":
            leads = add(least_leads(scores, candidates, labels), batch.mask)
            loss = loss - leads.mean()
        elif search == "paths":
            worst = worst_texts(scores, candidates, labels, None)
            count = scores.classes - 1
            mask = batch.mask.repeat_interleave(count, dim=0)
            logits = add(scores(worst.flatten(0, 1)), mask)
            other = rivals(labels, scores.classes).flatten()
            own = logits.gather(1, labels.repeat_interleave(count).unsqueeze(1))
            loss = loss + (logits.gather(1, other.unsqueeze(1)) - own).mean()
        return torch.autograd.grad(loss, list(scores.parameters()))

    return step


def ways(options: Namespace) -> dict[str, tuple[str, int, Callable[[], object]]]:
    """Return the measurements by name: the base of the ratio, the number of texts, the work."""
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    if options.lists is None:
        words = ["".join(rng.choices(letters, k=6)) for _ in range(options.words)]
        threat = Synonyms.of({word: rng.sample(words, 8) for word in words}, words=ASCII)
    else:
        threat = Synonyms.read(options.lists, words=ASCII)
        words = list(threat.lists)[: options.words]
    texts, pairs = (
        [" ".join(rng.choices(words, k=options.length)) for _ in range(options.texts)],
        None,
    )
    if options.file is not None:
        texts, words, pairs = content_of(Path(options.file), options)
    work: dict[str, tuple[str, int, Callable[[], object]]] = {}
    for width, hidden, name in ((1, 0, "words"), (2, 0, "pairs"), (2, options.hidden, "net")):
        fixed, trainable = (
            model(words, width, options.classes, hidden=hidden, trained=new, pairs=pairs)
            for new in (False, True)
        )
        certifier = SynonymCertifier(fixed, threat)
        plain, size = f"prediction, {name}", options.texts
        work[plain] = ("", size, partial(predict, fixed, texts))
        work[f"all words, {name}"] = (plain, size, partial(certifier, texts, (None,)))
        if width == 1:
            # Each word is its own only candidate, so that all certificates hold.
            held = SynonymCertifier(
                fixed, Synonyms.of({word: [word] for word in words}, words=ASCII)
            )
            work["all words, words, if certified"] = (plain, size, partial(held, texts, (None,)))
            smooth = SmoothedCertifier(partial(predict, fixed), threat.at(1), Smoothing())
            work["1 word, words, smoothed"] = (plain, _FEW, partial(smooth, texts[:_FEW], (1,)))
        step = f"training step, {name}"
        work[step] = ("", size, training(trainable, threat, texts, None))
        searches: tuple[Search, ...] = ("paths", "intervals") if hidden else ("paths",)
        for search in searches:
            title = f"robust step, {name}" + (f", {search}" if hidden else "")
            work[title] = (step, size, training(trainable, threat, texts, search))
    edits = CharacterCertifier(model(words, 1, options.classes), Characters(k=1, words=ASCII))
    work["1 character, words"] = ("", _FEW, partial(edits, texts[:_FEW], (1,)))
    balls, batch = _propagated(options.moved, options.classes)
    plain = "prediction, Transformer"
    work[plain] = ("", 1, partial(balls.network, batch.x, batch.mask))
    work["1 word moved, Transformer"] = (plain, 1, partial(balls, batch))
    return work


class _Embedded(NamedTuple):
    x: Tensor
    mask: Tensor


@dataclass
class _Transformer:
    network: TransformerClassifier

    def embed(self, batch: _Embedded) -> Tensor:
        return batch.x


def _propagated(length: int, classes: int) -> tuple[WordBallsCertifier, _Embedded]:
    """Return a random Transformer as in configs/text_classifier/reviews_propagation.yaml."""
    torch.manual_seed(0)
    layers = TransformerLayers(mean_norm=True, feedforward=64, activation="relu")
    network = TransformerClassifier(32, classes, depth=1, heads=4, layers=layers).eval()
    x = torch.randn(1, length, 32, dtype=torch.float64)
    batch = _Embedded(x, torch.ones(1, length, dtype=torch.bool))
    return WordBallsCertifier(_Transformer(network), WordBalls(passes="forward")), batch


def main() -> None:
    """Print milliseconds for each text, and ratios."""
    parser = command(__doc__, length=40, repeats=5, out=None)
    parser.add_argument("--lists", help="file of lists; random ones if none")
    parser.add_argument("--file", help="texts, a line each; random ones if none")
    parser.add_argument("--words", type=int, default=10_000, help="words of the vocabulary")
    parser.add_argument("--texts", type=int, default=256, help="texts of a batch")
    parser.add_argument("--classes", type=int, default=2, help="number of classes")
    parser.add_argument("--hidden", type=int, default=32, help="hidden units of the net")
    parser.add_argument("--moved", type=int, default=8, help="words of the Transformer's text")
    options = parser.parse_args()
    check_paths(options.lists, options.file)
    # Processor time of several threads would depend on how they wait.
    torch.set_num_threads(1)
    measured = ways(options)
    seconds = median_seconds({way: work for way, (*_, work) in measured.items()}, options.repeats)
    each = {way: 1e3 * seconds[way] / size for way, (_, size, _) in measured.items()}
    setup = settings(
        options, "lists", "file", "words", "texts", "length", "classes", "hidden", "moved"
    )
    rows = []
    for way, (base, _, _) in measured.items():
        rows.append([way, each[way], each[way] / each[base] if base else "", base])
    print(f"{heading(setup)}\n\n{table(['what', 'ms a text', 'ratio', 'to'], rows)}")
    save(options.out, {"about": setup, "ms": each})


if __name__ == "__main__":
    main()
