"""Means over the samples of all processes, from the mean of each process."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pytorch_lightning import Trainer


def batch_weight(trainer: "Trainer", batch_idx: int) -> float:
    """Return the weight of this process's batch mean in the mean over all processes.

    It is 1 for equal shares, and for other samplers; 0 for a process without samples in this batch
    of the epoch, which repeats one of another process.
    """
    if trainer.world_size == 1:
        return 1.0
    # DDP averages gradients over processes. With unequal shares of a batch, this is the mean over
    # the samples only if each loss is weighted. The sampler has the shares, without communication.
    loader = _loader(trainer)
    weight = getattr(getattr(loader, "sampler", None), "weight", None)
    return float(weight(batch_idx)) if callable(weight) else 1.0


def _loader(trainer: "Trainer") -> object:
    if trainer.training:
        return trainer.train_dataloader
    return trainer.test_dataloaders if trainer.testing else trainer.val_dataloaders


def global_means(
    trainer: "Trainer", means: Mapping[str, Tensor], weight: float
) -> dict[str, Tensor]:
    """Return means over the samples of all processes, which all have to call it (it waits).

    `means` are those over this process's samples, `weight` is the `batch_weight`.
    """
    if trainer.world_size == 1:
        return dict(means)
    # One message for all values; the sampler's weights average to 1 over the processes.
    values = torch.stack([value.detach() for value in means.values()]) * weight
    reduced = trainer.strategy.reduce(values, reduce_op="mean")
    return dict(zip(means, torch.as_tensor(reduced).unbind(), strict=True))


def global_size(trainer: "Trainer", batch_idx: int, size: int) -> float:
    """Return the samples that all processes have in a batch; all have to call it (it waits).

    `size` is that of this process's batch.
    """
    if trainer.world_size == 1:
        return size
    own = float(size) if batch_weight(trainer, batch_idx) > 0 else 0.0
    return float(process_sums(trainer, torch.tensor(own, device=trainer.strategy.root_device)))


def process_sums(trainer: "Trainer", sums: Tensor) -> Tensor:
    """Return the sums over all processes, which all have to call it (it waits)."""
    if trainer.world_size == 1:
        return sums
    return torch.as_tensor(trainer.strategy.reduce(sums, reduce_op="sum"))
