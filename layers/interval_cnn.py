"""A convolution over word vectors with interval bound propagation (Jia et al., 2019)."""

from collections.abc import Sequence
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
        """Build the layers, all of one width; the pooling is over the real words."""
        super().__init__()
        self.projection = nn.Linear(vector_width, width)
        self.convolution = nn.Conv1d(width, width, 3, padding=1)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, num_classes)
        self.pooling = pooling

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, v]` word vectors with mask `[B, N]` to `[B, C]` logits."""
        return self.from_projections(self.projection(x), mask)

    def from_projections(self, projected: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, w]` projected words with mask `[B, N]` to `[B, C]` logits."""
        # Zero padding, like the convolution's own beyond the ends of a text.
        words = projected.relu() * mask.unsqueeze(-1)
        windows = self.convolution(words.mT).relu().mT
        logits: Tensor = self.head(self.hidden(self._pooled(windows, mask)).relu())
        return logits

    def hull(self, vectors: Tensor, ids: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return projections of words, and the least and largest ones of their candidates.

        Each is `[U, w]`.

        Args:
            vectors: `[V, v]` of all words.
            ids: `[M]` candidates of U words, for each itself first.
            starts: `[U + 1]`, the first candidate of each.
        """
        # Words share candidates: each is projected once.
        different, inverse = torch.unique(ids, return_inverse=True)
        projected = self.projection(functional.embedding(different, vectors))[inverse]
        sizes = starts.diff()
        owner = torch.arange(len(sizes), device=ids.device).repeat_interleave(sizes)
        index = owner.unsqueeze(1).expand_as(projected)
        own = projected[starts[:-1]]
        lower = own.scatter_reduce(0, index, projected, "amin")
        upper = own.scatter_reduce(0, index, projected, "amax")
        return own, lower, upper

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
        return self._from_pooled(low, high, labels)

    def least_leads_of_one(
        self, own: Tensor, lower: Tensor, upper: Tensor, mask: Tensor, labels: Tensor
    ) -> Tensor:
        """Return `[B, N, C]` the bounds of `least_leads` where only the word at one position moves.

        Projections of the words themselves, and least and largest ones, are `[B, N, w]`.
        """
        real = mask.unsqueeze(-1)
        words, low, high = (part.relu() * real for part in (own, lower, upper))
        middle, reach = (low + high) / 2 - words, (high - low) / 2
        windows = self.convolution(words.mT).mT
        lows, highs = [], []
        for shift in (-1, 0, 1):
            # The window that this word is in, one position before it to one after.
            kernel = self.convolution.weight[:, :, 1 - shift].mT
            moved = _shifted(windows, shift, 0.0) + middle @ kernel
            radius = reach @ kernel.abs()
            exists = _shifted(real, shift, value=False)
            lows.append(((moved - radius).relu(), exists))
            highs.append(((moved + radius).relu(), exists))
        rest = self._pooled_without(windows.relu(), mask)
        low, high = (self._pooled_with(rest, parts, mask) for parts in (lows, highs))
        return self._from_pooled(low, high, labels.unsqueeze(1).expand(mask.shape))

    def _from_pooled(self, low: Tensor, high: Tensor, labels: Tensor) -> Tensor:
        """Return `[..., C]` lower bounds on margins, from pooled intervals `[..., w]`."""
        middle, reach = (
            self.hidden((low + high) / 2),
            (high - low) / 2 @ self.hidden.weight.abs().mT,
        )
        low, high = (middle - reach).relu(), (middle + reach).relu()
        # The difference of two rows, not of two bounds on logits: that bound is tighter.
        rows = self.head.weight[labels].unsqueeze(-2) - self.head.weight
        offset = self.head.bias[labels].unsqueeze(-1) - self.head.bias
        middle = torch.einsum("...cw,...w->...c", rows, (low + high) / 2) + offset
        return middle - torch.einsum("...cw,...w->...c", rows.abs(), (high - low) / 2)

    def _pooled_without(self, windows: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, N, w]`, for each position what pools the windows that its word is not in."""
        real = mask.unsqueeze(-1)
        if self.pooling == "mean":
            windows = windows * real
            near = sum(_shifted(windows, shift, 0.0) for shift in (-1, 0, 1))
            return windows.sum(dim=1, keepdim=True) - near
        windows = windows.masked_fill(~real, -torch.inf)
        before, after = windows.cummax(dim=1).values, windows.flip(1).cummax(dim=1).values.flip(1)
        return torch.maximum(_shifted(before, -2, -torch.inf), _shifted(after, 2, -torch.inf))

    def _pooled_with(
        self, rest: Tensor, parts: Sequence[tuple[Tensor, Tensor]], mask: Tensor
    ) -> Tensor:
        if self.pooling == "mean":
            total = rest + sum(part * exists for part, exists in parts)
            return total / mask.sum(dim=1).view(-1, 1, 1)
        for part, exists in parts:
            rest = torch.maximum(rest, part.masked_fill(~exists, -torch.inf))
        return rest

    def _pooled(self, windows: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1)
        if self.pooling == "max":
            return windows.masked_fill(~real, -torch.inf).amax(dim=1)
        return (windows * real).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def _shifted(values: Tensor, shift: int, value: float) -> Tensor:
    """`[B, N, w]`: at each position the values some positions after it, `value` beyond the ends."""
    length = values.shape[1]
    if shift == 0:
        return values
    padded = functional.pad(values, (0, 0, max(-shift, 0), max(shift, 0)), value=value)
    return padded[:, max(shift, 0) : max(shift, 0) + length]
