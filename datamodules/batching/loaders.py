"""Loaders of whole batches, and the state that a resumed run needs to repeat their order."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, SequentialSampler

from text import Batch


class FixedBatches(SequentialSampler):
    """The same batches each epoch, for `overfit_batches`, which leaves only such samplers alone."""

    def __init__(self, batches: Sequence[list[int]]) -> None:
        super().__init__(batches)
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)


class Loader(DataLoader[Batch]):
    """A loader whose batches are repeated by the data module's state and the sampler.

    Lightning warns of unreliable results when it resumes with loaders that have no such methods.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the data module has the state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore nothing: the sampler knows the epoch and the batches to skip."""


def make_loader(
    encoded: Dataset[Batch], sampler: Any, *, num_workers: int, pin_memory: bool, seed: int
) -> Loader:
    """A loader that hands each list of indices from the sampler to the data, and yields batches."""
    if num_workers:
        # The texts are encoded: a tokenizer's threads must not warn of the fork, nor be used.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return Loader(
        encoded,
        # One index is a whole batch: `batch_size=None` is torch's switch for that; and as it is the
        # `sampler`, Lightning finds its `set_epoch` and can wrap the loader for prediction.
        sampler=sampler,
        batch_size=None,
        collate_fn=_as_it_is,
        num_workers=num_workers,
        worker_init_fn=_begin_worker,
        persistent_workers=num_workers > 0,
        pin_memory=pin_memory,
        # Else each iterator would draw from the global generator, and shift what follows there.
        generator=torch.Generator().manual_seed(seed),
    )


def _begin_worker(_: int) -> None:
    """Lets a worker end without a traceback where the training's process has hung up.

    That process has an error of its own to report, and ends. A worker that hands a batch over just
    then meets a closed connection in a thread of multiprocessing, which would print a traceback.
    """
    sys.excepthook = _unless_hung_up


def _unless_hung_up(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not issubclass(kind, EOFError | ConnectionError):
        sys.__excepthook__(kind, error, trace)


def _as_it_is(batch: Any) -> Any:
    return batch


def resume_point(saved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[int, int]:
    """Return the epoch in which a resumed run goes on, and the batches of it that are over.

    Args:
        saved: from the checkpoint: `epoch`, `consumed`, and the keys of `now` as they were.
        now: what the batches depend on.

    Raises:
        ValueError: its batches would be other ones now.
    """
    changed = [
        # Digests are for machines.
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
