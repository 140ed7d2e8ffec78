"""Loaders of whole batches, and the state that a resumed run needs to repeat their order."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, SequentialSampler

from datamodules.batching.sampler import Order
from text import Batch


class FixedBatches(SequentialSampler):
    """The same batches each epoch, for `overfit_batches`, which replaces any other sampler.

    `order` has the epoch to begin with, and its batches that a resumed run has completed.
    """

    def __init__(self, batches: Sequence[list[int]], order: Order) -> None:
        super().__init__(batches)
        self.batches = batches
        self.epoch = order.epoch
        self._skip = (order.epoch, order.skip)

    def set_epoch(self, epoch: int) -> None:
        """Take note of the epoch (Lightning calls it before each one)."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        epoch, skip = self._skip
        return iter(self.batches[skip if self.epoch == epoch else 0 :])


class Loader(DataLoader[Batch]):
    """A loader without a state of its own: the data module and the sampler repeat its batches.

    The methods are here because Lightning warns when it resumes with loaders without them.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the data module has the state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore nothing: the sampler knows the epoch and the batches to skip."""


def make_loader(
    encoded: Dataset[Batch], sampler: Any, *, num_workers: int, pin_memory: bool, seed: int
) -> Loader:
    """Return a loader of the batches that the sampler's lists of indices select."""
    if num_workers:
        # The texts are encoded: the tokenizer must neither use threads nor warn of the fork.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return Loader(
        encoded,
        # Each index is a list for one batch: this needs `batch_size=None`. As `sampler`, Lightning
        # finds its `set_epoch` and can wrap the loader for prediction.
        sampler=sampler,
        batch_size=None,
        collate_fn=_identity,
        num_workers=num_workers,
        worker_init_fn=_begin_worker,
        persistent_workers=num_workers > 0,
        pin_memory=pin_memory,
        # Otherwise each iterator would draw from the global generator and change later draws.
        generator=torch.Generator().manual_seed(seed),
    )


def _begin_worker(_: int) -> None:
    """Let a worker end without a traceback if the training process has closed the connection."""
    # The training process reports its own error. A worker that sends a batch at that moment would
    # print a traceback from a thread of multiprocessing.
    sys.excepthook = _hide_closed_connection


def _hide_closed_connection(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not issubclass(kind, EOFError | ConnectionError):
        sys.__excepthook__(kind, error, trace)


# A named function: worker processes must be able to pickle it.
def _identity(batch: Any) -> Any:
    return batch


def resume_point(saved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[int, int]:
    """Return the epoch in which a resumed run continues, and the completed batches of this epoch.

    The checkpoint has saved `epoch`, `consumed`, and the former values of `now`, all values that
    determine the batches.

    Raises:
        ValueError: these values have changed.
    """
    changed = [
        # The values of texts are digests, which tell a user nothing.
        key if isinstance(now[key], str) else f"{key} {saved.get(key)} -> {now[key]}"
        for key in now
        if saved.get(key) != now[key]
    ]
    if changed:
        msg = (
            f"got other training data or batches than the checkpoint was trained with (changed: "
            f"{', '.join(changed)}), expected the same: put back the files and settings of the "
            "run, or begin another --run"
        )
        raise ValueError(msg)
    return saved["epoch"], saved["consumed"]
