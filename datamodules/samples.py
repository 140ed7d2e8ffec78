"""The base of corpora of separate texts: encodes them once, and makes repeatable loaders."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from datamodules.batching.encoded import EncodedTexts
from datamodules.batching.examples import Example, fingerprint
from datamodules.batching.loaders import FixedBatches, make_loader
from datamodules.batching.sampler import BucketBatchSampler
from datamodules.sources.rows import Split
from datamodules.sources.splits import Splits
from text import Batch, Tokenizer

NEEDED: Mapping[str, tuple[Split, ...]] = {
    "fit": ("train", "validation"),
    "validate": ("validation",),
    "test": ("test",),
    "predict": ("test",),
}
"""The splits that a stage reads."""


class Samples(Splits):
    """A corpus of separate texts; a subclass reads their examples in `setup`.

    Args:
        base: settings of `Corpus`.
    """

    def __init__(self, **base: Any) -> None:
        super().__init__(**base)
        self._examples: dict[Split, list[Example]] = {}
        self._encoded: dict[Split, tuple[Tokenizer, EncodedTexts]] = {}
        self._digests: dict[str, str] = {}

    def examples(self, split: Split) -> list[Example]:
        """Return the examples of a split; raise RuntimeError before its `setup`."""
        if split not in self._examples:
            msg = f"got examples({split!r}) before setup, expected setup(stage) to be called first"
            raise RuntimeError(msg)
        return self._examples[split]

    def _encode(self, split: Split) -> EncodedTexts:
        """Return the encoded split, which the first loader makes."""
        if self.tokenizer is None:
            msg = "got no tokenizer, expected `datamodule.tokenizer` to be set before any loader"
            raise RuntimeError(msg)
        tokenizer, encoded = self._encoded.get(split, (None, None))
        # Ids belong to one tokenizer: for another one, the texts are encoded again.
        if encoded is None or tokenizer is not self.tokenizer:
            encoded = self._encoding(split, self.tokenizer)
            self._encoded[split] = (self.tokenizer, encoded)
        return encoded

    def _encoding(self, split: Split, tokenizer: Tokenizer) -> EncodedTexts:
        """Encode a split."""
        return EncodedTexts(self.examples(split), tokenizer, pairs=False)

    def _loader(self, split: Split, *, shuffle: bool = False) -> DataLoader[Batch]:
        encoded = self._encode(split)
        batch_size = self.batch_size if shuffle else self.eval_batch_size
        # `overfit_batches` repeats the first batches: their order must not change.
        overfit = self.trainer is not None and getattr(self.trainer, "overfit_batches", 0) > 0
        order = self._next_order(shuffle=shuffle)
        first = order._replace(epoch=0, skip=0) if overfit else order
        sampler = BucketBatchSampler(encoded.lengths, batch_size, first)
        return make_loader(
            encoded,
            FixedBatches(sampler.batches(), order) if overfit else sampler,
            num_workers=self.num_workers,
            pin_memory=self.pin_memory,
            seed=self._seed(),
        )

    def train_dataloader(self) -> DataLoader[Batch]:
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._loader("validation")

    def test_dataloader(self) -> DataLoader[Batch]:
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader[Batch]:
        return self._loader("test")

    def _content(self) -> dict[str, str] | None:
        if "train" not in self._examples:
            return None
        if not self._digests:  # hashing takes a second for a million texts: once
            self._digests = {
                f"{split} rows": fingerprint(self._examples.get(split, ()))
                for split in ("train", "validation")
            }
        return self._digests
