"""The masks of one pass over a batch; subclasses choose them."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Probabilities = Callable[[], Tensor]
"""Returns the attention weights `[B, H, N, N]` of a layer with nothing masked."""


class Masks:
    """The masks of one pass over a batch with real tokens `[B, N]`, and how much they mask.

    Attributes:
        keys: real keys of the present layer: `[B, 1, 1, N]`, or `[B, 1, N, N]` where the attention
            is local, bool.
        valid: its units, `[B, N, N]` bool: pairs of real tokens, of which the first sees the other.
    """

    def __init__(self, real: Tensor) -> None:
        self.real = real
        self.keys = real[:, None, None, :]
        self.valid = real.unsqueeze(-1) & real.unsqueeze(-2)
        self._all = self.keys, self.valid
        self._units: list[Tensor] = []
        self.kept: list[Tensor] = []
        """By layer: `[B]`, the share of the units that are kept, with a gradient for the masks."""

    @property
    def units(self) -> Tensor:
        """`[L, B]`: the number of units in each layer of a pass."""
        return torch.stack(self._units)

    def __call__(
        self, layer: int, hidden: Tensor, probabilities: Probabilities, near: Tensor | None = None
    ) -> Tensor:
        """`[B, 1 or H, N, N]` float: 1 for units that are kept, at least one real key in each row.

        Args:
            layer: number of the layer, from 0.
            hidden: its input `[B, N, d]`.
            probabilities: returns its attention weights.
            near: `[B, 1, N, N]` bool, keys that a local attention sees; None: it sees all.
        """
        self.keys, self.valid = self._all
        if near is not None:
            self.keys = self.keys & near
            self.valid = self.valid & self.keys[:, 0]
        keep = self.choose(layer, hidden, probabilities)
        # Integers up to the division, so that padding changes not even the last bit.
        counted = (keep.sum(dim=1) * self.valid).sum(dim=(1, 2))
        self._units.append(self.valid.sum(dim=(1, 2)))
        self.kept.append(counted / (self._units[-1] * keep.shape[1]))
        return keep

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """Return the result of `__call__`."""
        # Not an abstract method: some uses need the counts only.
        raise NotImplementedError

    def masked(self) -> Tensor:
        """`[L]`: the share of the units masked in each layer, a mean over the samples."""
        return torch.stack([1 - share.detach().mean() for share in self.kept])


def straight(odds: Tensor, keys: Tensor) -> Tensor:
    """`[B, H, N, N]` bool: positive odds, and the greatest of each row, among the real keys.

    Keys are `[B, 1, 1, N]` or `[B, 1, N, N]` bool.
    """
    # Infinity, not the lowest number: if all odds of a row overflow to -inf, the row is kept.
    odds = odds.masked_fill(~keys, -math.inf)
    return (odds > 0).logical_or_(odds == odds.amax(dim=-1, keepdim=True))
