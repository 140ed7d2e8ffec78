"""The frame of multi-head self-attention: projections, heads, output."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn


class HeadedAttention(nn.Module, ABC):
    """Projects tokens to queries, keys and values of each head; a subclass mixes the values.

    Real tokens never depend on padding, and padding may hold any finite numbers. Vaswani et al.,
    "Attention Is All You Need", 2017, section 3.2.2, is the frame of all mechanisms here.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        """Make the projections.

        Args:
            width: token width d.
            heads: number of heads H, a divisor of `width`; a head has the width e = d / H.
            dropout: on attention weights while training; mechanisms without weights have none.

        Raises:
            ValueError: the heads do not divide the width.
        """
        super().__init__()
        if heads < 1 or width % heads:
            msg = f"got width={width} and heads={heads}, expected a width divisible by the heads"
            raise ValueError(msg)
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    @abstractmethod
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Mix the values of the real tokens, finite everywhere; all tensors are `[B, H, N, e]`."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values `[B, H, N, e]` of tokens `[B, N, d]`."""
        qkv = self.qkv(x).reshape(*x.shape[:-1], 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        return query, key, value

    def joined(self, mixed: Tensor) -> Tensor:
        """`[B, N, d]` from `[B, H, N, e]`, before the output map."""
        return mixed.transpose(1, 2).flatten(-2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`x` `[B, N, d]`, `mask` `[B, N]` bool (True = real token); returns `[B, N, d]`."""
        query, key, value = self.project(x)
        out: Tensor = self.output(self.joined(self.mix(query, key, value, mask)))
        return out


def real(x: Tensor, mask: Tensor) -> Tensor:
    """`[B, H, N, e]` with zeros at padding."""
    return x.masked_fill(~mask[:, None, :, None], 0.0)


def place(mask: Tensor) -> Tensor:
    """`[B, N]` int64: the number of real tokens before each token."""
    return torch.cumsum(mask, dim=1) - mask.long()


def wide(x: Tensor) -> Tensor:
    """`x` in single precision at least: for sums over a text, quotients and inverses."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def exact(x: Tensor) -> AbstractContextManager[None]:
    """Switch autocast off in a block: products have the precision of their factors."""
    return torch.autocast(x.device.type, enabled=False)
