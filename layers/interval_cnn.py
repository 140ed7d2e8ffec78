"""A convolution over word vectors with interval bound propagation (Jia et al., 2019)."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

WindowPooling = Literal["mean", "max"]


class IntervalCNN(nn.Module):
    """Linear map of each word, convolution over three words, pooling, hidden layer, head.

    The network of Jia et al., "Certified Robustness to Adversarial Word Substitutions", 2019,
    appendix A; all activations are ReLU.
    """

    def __init__(
        self, vector_width: int, width: int, num_classes: int, *, pooling: WindowPooling = "mean"
    ) -> None:
        """Build the layers.

        Args:
            vector_width: of a word vector.
            width: of all layers.
            num_classes: number of logits.
            pooling: over the real words.
        """
        super().__init__()
        self.projection = nn.Linear(vector_width, width)
        self.convolution = nn.Conv1d(width, width, 3, padding=1)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, num_classes)
        self.pooling = pooling

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, v]` word vectors with mask `[B, N]` to `[B, C]` logits."""
        # Zero padding, like the convolution's own beyond the ends of a text.
        words = self.projection(x).relu() * mask.unsqueeze(-1)
        windows = self.convolution(words.mT).relu().mT
        logits: Tensor = self.head(self.hidden(self._pooled(windows, mask)).relu())
        return logits

    def hull(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the least and largest projections `[B, N, w]` of candidates `[B, N, S, v]`."""
        projected = self.projection(vectors)
        return projected.amin(dim=2), projected.amax(dim=2)

    def least_leads(self, lower: Tensor, upper: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """Return `[B, C]` lower bounds on the margins of the label's logit; 0 in its own column.

        Least and largest projections of the words are `[B, N, w]`.
        """
        # Each layer maps an interval by its centre and radius: W c + b, |W| r.
        real = mask.unsqueeze(-1)
        low, high = lower.relu() * real, upper.relu() * real
        kernel, bias = self.convolution.weight, self.convolution.bias
        middle = functional.conv1d(((low + high) / 2).mT, kernel, bias, padding=1).mT
        reach = functional.conv1d(((high - low) / 2).mT, kernel.abs(), None, padding=1).mT
        low = self._pooled((middle - reach).relu(), mask)
        high = self._pooled((middle + reach).relu(), mask)
        middle, reach = (
            self.hidden((low + high) / 2),
            (high - low) / 2 @ self.hidden.weight.abs().mT,
        )
        low, high = (middle - reach).relu(), (middle + reach).relu()
        # The difference of two rows, not of two bounds on logits: that bound is tighter.
        rows = self.head.weight[labels].unsqueeze(1) - self.head.weight
        offset = self.head.bias[labels].unsqueeze(1) - self.head.bias
        middle = torch.einsum("bcw,bw->bc", rows, (low + high) / 2) + offset
        return middle - torch.einsum("bcw,bw->bc", rows.abs(), (high - low) / 2)

    def _pooled(self, windows: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1)
        if self.pooling == "max":
            return windows.masked_fill(~real, -torch.inf).amax(dim=1)
        return (windows * real).sum(dim=1) / mask.sum(dim=1, keepdim=True)
