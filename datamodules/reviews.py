"""The embedded corpus: restaurant reviews from a grammar; no file, no download."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from datamodules.batching.examples import Example
from datamodules.labelled import Split, TextDataModule
from datamodules.sources.reviews_grammar import generate

SIZES: dict[Split, int] = {"train": 4000, "validation": 500, "test": 1000}


class Reviews(TextDataModule):
    """Generated restaurant reviews of two classes: no file is read, so `data_dir` is not used.

    4,000 to train, 500 to validate, 1,000 to test, as many of each class in every split, all
    different, and byte by byte the same on every platform. Word order matters: see
    `reviews_grammar`.

    Args:
        corpus_seed: seed of the sentences; runs with another `seed` still see the same corpus.
        base: settings of `TextDataModule`.
    """

    corpus = "reviews"
    classes: ClassVar[tuple[str, ...]] = ("negative", "positive")

    def __init__(self, *, corpus_seed: int = 0, **base: Any) -> None:
        super().__init__(**base)
        self.corpus_seed = corpus_seed

    def fetch(self, splits: Sequence[Split]) -> None:
        """Nothing to fetch."""

    def _is_local(self, split: Split) -> bool:
        return True

    def _read(self, split: Split) -> list[Example]:
        names = list(SIZES)
        start = sum(SIZES[name] for name in names[: names.index(split)])
        pairs = _corpus(self.corpus_seed)[start : start + SIZES[split]]
        return [Example(text, label, i) for i, (text, label) in enumerate(pairs)]


@lru_cache(maxsize=2)
def _corpus(seed: int) -> tuple[tuple[str, int], ...]:
    """Return texts and labels of all splits, cached: a run reads several splits."""
    return tuple(generate(seed, sum(SIZES.values())))
