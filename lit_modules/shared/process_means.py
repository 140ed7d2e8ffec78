"""Means over the samples of all processes, where each process sees the mean over its own."""

from collections.abc import Mapping

import pytorch_lightning as pl
import torch
from torch import Tensor


def batch_weight(trainer: pl.Trainer, batch_idx: int) -> float:
    """Returns the weight of this process's batch mean in the mean over all processes.

    DDP averages gradients over processes; where these have unequal shares of a batch, the average
    is that of the samples only if each loss is weighted. The batch sampler knows the shares, so
    that no communication is needed.

    Args:
        trainer: the trainer.
        batch_idx: which batch of the epoch.

    Returns:
        1 where all have as many samples, or for loaders with samplers of another kind; 0 for a
        stand-in, which a process gets when there is no sample left for it.
    """
    if trainer.world_size == 1:
        return 1.0
    loader = _loader(trainer)
    weight = getattr(getattr(loader, "sampler", None), "weight", None)
    return float(weight(batch_idx)) if callable(weight) else 1.0


def _loader(trainer: pl.Trainer) -> object:
    if trainer.training:
        return trainer.train_dataloader
    return trainer.test_dataloaders if trainer.testing else trainer.val_dataloaders


def global_means(
    trainer: pl.Trainer, means: Mapping[str, Tensor], weight: float
) -> dict[str, Tensor]:
    """Returns means over the samples of all processes, which all have to call it (it waits).

    Args:
        trainer: the trainer.
        means: by name, the means over this process's samples.
        weight: `batch_weight` of the batch.
    """
    if trainer.world_size == 1:
        return dict(means)
    # One message for all of them.
    values = torch.stack([value.detach() for value in means.values()]) * weight
    reduced = trainer.strategy.reduce(values, reduce_op="mean")
    return dict(zip(means, torch.as_tensor(reduced).unbind(), strict=True))


def process_sums(trainer: pl.Trainer, sums: Tensor) -> Tensor:
    """Returns the sums over all processes, which all have to call it (it waits).

    Args:
        trainer: the trainer.
        sums: of this process.
    """
    if trainer.world_size == 1:
        return sums
    return torch.as_tensor(trainer.strategy.reduce(sums, reduce_op="sum"))
