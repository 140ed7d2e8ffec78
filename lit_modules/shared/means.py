"""Metrics that are means over all samples, whatever the batches and the number of processes."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric


class SampleMeans(nn.Module):
    """Mean values of a split, by name; not stored in checkpoints.

    Args:
        names: names of all means. Made here, not on first use: under DDP every process reduces
            every mean, also without a batch.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        # By default samples with a NaN would be left out of the mean, and hide in it.
        self.means = nn.ModuleDict({name: MeanMetric(nan_strategy="disable") for name in names})

    def update(self, values: Mapping[str, Tensor]) -> None:
        """Add the values `[B]` of one batch, by name.

        Without communication: a process with more batches would wait for ever.
        """
        for name, value in values.items():
            self._mean(name).update(value)

    def take(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Returns the means over all processes, which all have to call it, and resets them."""
        taken = {}
        for name in names:
            mean = self._mean(name)
            mean.update(torch.empty(0, device=mean.device))  # no batches are no error
            taken[name] = mean.compute()
            # A state made under inference mode could not be updated by a later run without it.
            with torch.inference_mode(False):
                mean.reset()
        return taken

    def _mean(self, name: str) -> MeanMetric:
        mean = self.means[name]
        if not isinstance(mean, MeanMetric):
            msg = f"got {type(mean).__name__} for {name}, expected a MeanMetric"
            raise TypeError(msg)
        return mean
