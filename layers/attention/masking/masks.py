"""The masks of one pass over a batch, whoever chooses them."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Probabilities = Callable[[], Tensor]
"""The attention weights `[B, H, N, N]` of a layer with nothing masked, for those who ask."""


class Masks:
    """The masks of one pass over a batch, and how much they mask.

    Args:
        real: `[B, N]` bool, True at real tokens.
    """

    def __init__(self, real: Tensor) -> None:
        self.real = real
        self.valid = real.unsqueeze(-1) & real.unsqueeze(-2)
        self.pairs = self.valid.sum(dim=(1, 2))
        self.kept: list[Tensor] = []
        """By layer: `[B]` the share of the pairs of real tokens that are kept; with a gradient for
        what chose them."""

    def __call__(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """`[B, 1 or H, N, N]` in float: 1 for what is kept, in each row at least one real key.

        Args:
            layer: counted from 0.
            hidden: `[B, N, d]`, what the layer is given.
            probabilities: see `Probabilities`.
        """
        keep = self.choose(layer, hidden, probabilities)
        # Whole numbers up to the division, so that padding changes not even the last bit.
        counted = (keep.sum(dim=1) * self.valid).sum(dim=(1, 2))
        self.kept.append(counted / (self.pairs * keep.shape[1]))
        return keep

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """The result of `__call__`."""
        # Part of the contract that only a way to choose can fill in; the base class counts.
        raise NotImplementedError

    def masked(self) -> Tensor:
        """`[L]`: the share of the units masked in each layer, a mean over the samples."""
        return torch.stack([1 - kept.detach().mean() for kept in self.kept])


def straight(odds: Tensor, real: Tensor) -> Tensor:
    """`[B, H, N, N]` bool: positive odds, and the greatest of each row, among the real keys.

    Args:
        odds: `[B, H, N, N]`.
        real: `[B, N]` bool.
    """
    # Not the lowest number: a row of odds that all overflowed to minus infinity is kept.
    odds = odds.masked_fill(~real[:, None, None, :], -math.inf)
    return (odds > 0).logical_or_(odds == odds.amax(dim=-1, keepdim=True))
