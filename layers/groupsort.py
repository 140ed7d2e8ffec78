"""GroupSort activations (Anil et al., 2019): 1-Lipschitz and gradient-norm preserving."""

import torch
from torch import Tensor, nn


def maxmin(x: Tensor) -> Tensor:
    """GroupSort of size two on `[..., d]`, d even: each pair `(a, b)` becomes `(max, min)`."""
    first, second = x[..., 0::2], x[..., 1::2]
    pairs = (torch.maximum(first, second), torch.minimum(first, second))
    return torch.stack(pairs, dim=-1).flatten(-2)


class GroupSort(nn.Module):
    """Sorts each group of `group_size` neighbouring features in descending order."""

    def __init__(self, group_size: int = 2) -> None:
        """Args: group_size: features per group, at least 2; the width must be a multiple of it."""
        super().__init__()
        if group_size < 2:
            msg = f"got group_size={group_size}, expected at least 2"
            raise ValueError(msg)
        self.group_size = group_size

    def forward(self, x: Tensor) -> Tensor:
        """`[..., d]` to `[..., d]`; ValueError if the group size does not divide d."""
        if x.shape[-1] % self.group_size:
            msg = f"got width {x.shape[-1]}, expected a multiple of group_size={self.group_size}"
            raise ValueError(msg)
        if self.group_size == 2:
            return maxmin(x)
        groups = x.reshape(*x.shape[:-1], -1, self.group_size)
        return torch.sort(groups, dim=-1, descending=True).values.flatten(-2)
