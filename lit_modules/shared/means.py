"""Metrics that are means over all samples, independent of batches and number of processes."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric


class SampleMeans(nn.Module):
    """Mean values of a split, by name; not stored in checkpoints.

    Args:
        names: names of all means; under DDP every process reduces every mean, also without a batch.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        # By default, torchmetrics would leave NaN values out of the mean and hide them.
        self.means = nn.ModuleDict(
            {_key(name): MeanMetric(nan_strategy="disable") for name in names}
        )

    def update(self, values: Mapping[str, Tensor]) -> None:
        """Add the values `[B]` of one batch, by name."""
        # No communication: processes may have different numbers of batches.
        for name, value in values.items():
            self._mean(name).update(value)

    def take(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return the means over all processes, which all have to call it, and resets them."""
        means = {}
        for name in names:
            mean = self._mean(name)
            mean.update(torch.empty(0, device=mean.device))  # no warning for a mean without batches
            means[name] = mean.compute()
            # A state created in inference mode could not be updated outside of it later.
            with torch.inference_mode(False):
                mean.reset()
        return means

    def _mean(self, name: str) -> MeanMetric:
        mean = self.means[_key(name)]
        if not isinstance(mean, MeanMetric):
            msg = f"got {type(mean).__name__} for {name}, expected a MeanMetric"
            raise TypeError(msg)
        return mean


def _key(name: str) -> str:
    # torch allows no full stop in the name of a module: `pgd_accuracy@0.5` has one.
    return name.replace(".", "_")
