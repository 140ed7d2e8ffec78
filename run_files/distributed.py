"""Operations that all processes of a run perform together."""

import itertools
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from pytorch_lightning import Trainer

T = TypeVar("T")

_RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
"""Variables of launchers that are 0 in the first process, or on its machine."""
_meetings = itertools.count()


@dataclass(frozen=True)
class Alone:
    """A single process, without a trainer."""

    world_size: int = 1
    global_rank: int = 0
    is_global_zero: bool = True
    strategy: None = None


Team: TypeAlias = "Trainer | Alone"
"""The processes that share the samples."""


def dry(trainer: "Trainer") -> bool:
    """Return True in Lightning's `fast_dev_run`, which writes no files."""
    return bool(getattr(trainer, "fast_dev_run", False))


def first_process() -> bool:
    """Return True in the first process of the run, also before there is a trainer."""
    return all(os.environ.get(rank, "0") == "0" for rank in _RANKS)


def gather(trainer: Team, records: list[T]) -> list[T]:
    """Gather the records of all processes on every process, in the order of ranks."""
    return [record for part in gather_parts(trainer, records) for record in part]


def gather_parts(trainer: Team, part: T) -> list[T]:
    """Gather the values of all processes on every process, in the order of ranks."""
    if trainer.world_size == 1:
        return [part]
    import torch.distributed

    # Not through files: the machines may have no common disk.
    parts: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(parts, part)
    return parts


class LostRankError(ConnectionError):
    """Another process of the run has ended or does not respond."""


class Meeting:
    """A barrier for processes whose work takes different times.

    A collective of torch fails when a process waits longer than the timeout of the process group,
    even if the others work. Here only time without progress counts: after `patience` seconds, by
    default the timeout of the process group, another process is lost. Each one makes the meeting.
    """

    def __init__(self, trainer: Team, *, patience: float | None = None) -> None:
        self._rank, self._world = trainer.global_rank, trainer.world_size
        if patience is None:
            timeout = getattr(trainer.strategy, "_timeout", None)
            patience = float("inf") if timeout is None else timeout.total_seconds()
        self._patience = patience
        self._reported = 0.0
        self._store: Any = None
        if self._world > 1:
            from torch.distributed import distributed_c10d

            store = distributed_c10d._get_default_store()
            # A new prefix for each meeting; all processes have had the same number of meetings.
            prefix = f"steadfast/{next(_meetings)}"
            self._store = distributed_c10d.PrefixStore(prefix, store)

    def progress(self) -> None:
        """Report that this process works; it is cheap enough for each batch."""
        now = time.monotonic()
        # At most one message a second: the store is one process on one machine.
        if self._store is not None and now - self._reported > 1:
            self._reported = now
            self._store.add("progress", 1)

    def wait(self) -> None:
        """Wait until all processes have arrived.

        Raises:
            LostRankError: no other process has made progress for too long.
        """
        if self._store is None:
            return
        self._store.set(f"here/{self._rank}", "")
        self._store.add("here", 1)
        pause, last, moved = 0.01, -1, time.monotonic()
        # add(key, 0) reads a counter without a change.
        while self._store.add("here", 0) < self._world:
            steps = self._store.add("progress", 0)
            if steps != last:
                last, moved = steps, time.monotonic()
            elif time.monotonic() - moved > self._patience:
                ranks = [r for r in range(self._world) if not self._store.check([f"here/{r}"])]
                msg = (
                    f"got no progress of rank {', '.join(map(str, ranks))} for {self._patience:g} "
                    "seconds, expected work or an end; see docs/runbook.md, hung ranks"
                )
                raise LostRankError(msg)
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
