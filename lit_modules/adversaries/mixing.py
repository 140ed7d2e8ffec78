"""Mixes texts: shares, partners and joined rows."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from layers.noise import log_gamma
from text.splitmix import GOLDEN, mixed


class TextRows(NamedTuple):
    """Embedded texts `x` `[R, N, d]`, 0 at padding, clean ones first.

    Their mask is `[R, N]`, labels are `[R]`, and seeds `[R]` int64.
    """

    x: Tensor
    mask: Tensor
    labels: Tensor
    seeds: Tensor

    @classmethod
    def of(cls, x: Tensor, mask: Tensor, labels: Tensor, seeds: Tensor) -> "TextRows":
        """Return rows whose padding is 0."""
        return cls(x * mask.unsqueeze(-1), mask, labels, seeds)

    def join(self, other: "TextRows") -> "TextRows":
        """Return both, padded to the longer."""
        length = max(self.mask.shape[1], other.mask.shape[1])
        both = [rows._padded(length) for rows in (self, other)]
        return TextRows(*(torch.cat(parts) for parts in zip(*both, strict=True)))

    def _padded(self, length: int) -> "TextRows":
        more = length - self.mask.shape[1]
        x = functional.pad(self.x, (0, 0, 0, more))
        return self._replace(x=x, mask=functional.pad(self.mask, (0, more)))


def adversarial_seeds(seeds: Tensor) -> Tensor:
    """`[k]`: seeds of adversarial texts, from those of the samples `[k]` that they are made of."""
    return mixed(seeds + GOLDEN)


def draw_shares(seeds: Tensor, alpha: float) -> Tensor:
    """`[R, 1]` shares, each from Beta(alpha, alpha), from seeds `[R]`."""
    logs = log_gamma(seeds, torch.empty(len(seeds), 1, 2, device=seeds.device), alpha)
    return logs.softmax(dim=-1)[:, 0, :1]


def draw_partners(seeds: Tensor) -> Tensor:
    """`[R]`: a random permutation of the rows, from their seeds; a row may be its own partner."""
    order = seeds.argsort()
    return torch.empty_like(order).scatter_(0, order, mixed(seeds).argsort())


def mix(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """Return share * first + (1 - share) * second; shares `[R, 1]`, tensors `[R, ...]`."""
    share = share.to(first.dtype).view(-1, *[1] * (first.ndim - 1))
    return share * first + (1 - share) * second
