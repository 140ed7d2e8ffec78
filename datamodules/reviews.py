"""The embedded corpus: restaurant reviews from a grammar of ours; no file, no download."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from datamodules.batching.examples import Example
from datamodules.labelled import Split, TextDataModule
from datamodules.sources.reviews_grammar import generate

SIZES: dict[Split, int] = {"train": 4000, "validation": 500, "test": 1000}


class Reviews(TextDataModule):
    """Generated restaurant reviews, two classes, as many of each in every split.

    4,000 to train, 500 to validate, 1,000 to test, all different, and byte by byte the same on
    every platform. Word order matters: see `reviews_grammar`.

    Args:
        data_dir: not used.
        batch_size: training texts per batch and process.
        eval_batch_size: texts per batch and process in validation, test and prediction.
        num_workers: processes that assemble batches; texts are encoded before, so 0 is fast.
        pin_memory: keep batches in page-locked memory, which speeds up copies to a GPU.
        on_bad_row: not used: there are none.
        seed: of the order of training batches; that of `seed_everything` if not given.
        limit_train: train on this many texts only, chosen by the seed; all if not given.
        corpus_seed: of the sentences; runs with another `seed` still see the same corpus.
    """

    corpus = "reviews"
    classes: ClassVar[tuple[str, ...]] = ("negative", "positive")

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        pin_memory: bool = False,
        on_bad_row: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
        limit_train: int | None = None,
        corpus_seed: int = 0,
    ) -> None:
        super().__init__(
            data_dir=data_dir,
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            pin_memory=pin_memory,
            on_bad_row=on_bad_row,
            seed=seed,
            limit_train=limit_train,
        )
        self.corpus_seed = corpus_seed

    def fetch(self, splits: Sequence[Split]) -> None:
        """Nothing to fetch."""

    def _at_hand(self, split: Split) -> bool:
        return True

    def _read(self, split: Split) -> list[Example]:
        start = 0
        for name, size in SIZES.items():
            if name == split:
                break
            start += size
        pairs = list(generate(self.corpus_seed, start + SIZES[split]))[start:]
        return [Example(text, label, i) for i, (text, label) in enumerate(pairs)]
