"""The masks of one pass over a batch; subclasses choose them."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Probabilities = Callable[[], Tensor]
"""Returns the attention weights `[B, H, N, N]` of a layer with nothing masked."""


class Masks:
    """The masks of one pass over a batch with real tokens `[B, N]`, and how much they mask."""

    def __init__(self, real: Tensor) -> None:
        self.real = real
        self.valid = real.unsqueeze(-1) & real.unsqueeze(-2)
        self.pairs = self.valid.sum(dim=(1, 2))
        self.kept: list[Tensor] = []
        """By layer: `[B]`, the share of the pairs of real tokens that are kept, with a gradient for
        the masks."""

    def __call__(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """`[B, 1 or H, N, N]` float: 1 for units that are kept, at least one real key in each row.

        Layers count from 0; hidden is its input `[B, N, d]`.
        """
        keep = self.choose(layer, hidden, probabilities)
        # Integers up to the division, so that padding changes not even the last bit.
        counted = (keep.sum(dim=1) * self.valid).sum(dim=(1, 2))
        self.kept.append(counted / (self.pairs * keep.shape[1]))
        return keep

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """Return the result of `__call__`."""
        # Not an abstract method: some uses need the counts only.
        raise NotImplementedError

    def masked(self) -> Tensor:
        """`[L]`: the share of the units masked in each layer, a mean over the samples."""
        return torch.stack([1 - share.detach().mean() for share in self.kept])


def straight(odds: Tensor, real: Tensor) -> Tensor:
    """`[B, H, N, N]` bool: positive odds, and the greatest of each row, among the real keys."""
    # Infinity, not the lowest number: if all odds of a row overflow to -inf, the row is kept.
    odds = odds.masked_fill(~real[:, None, None, :], -math.inf)
    return (odds > 0).logical_or_(odds == odds.amax(dim=-1, keepdim=True))
