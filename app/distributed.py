"""What several processes of one run have to do together."""

import os
from typing import TypeVar

import pytorch_lightning as pl
import torch

T = TypeVar("T")


def dry(trainer: pl.Trainer) -> bool:
    """Whether this is Lightning's `fast_dev_run`, which leaves no trace."""
    return bool(getattr(trainer, "fast_dev_run", False))


def first_process() -> bool:
    """Whether this process speaks for the run, also before there is a trainer."""
    return all(os.environ.get(rank, "0") == "0" for rank in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def gather(trainer: pl.Trainer, records: list[T]) -> list[T]:
    """The records of all processes, on every process.

    They travel between the processes, not through files: machines need not share a disk.
    """
    if trainer.world_size == 1:
        return records
    parts: list[list[T]] = [[] for _ in range(trainer.world_size)]
    torch.distributed.all_gather_object(parts, records)
    return [record for part in parts for record in part]
