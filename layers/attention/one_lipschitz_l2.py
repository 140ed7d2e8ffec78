"""Tied L2 attention scaled by its Lipschitz bound: the baseline "Kim et al." of the OLSA paper.

Source: Kim et al., "The Lipschitz Constant of Self-Attention", 2021, Theorem 3.2, with the weights
of appendix D of the OLSA paper: all of them orthogonal, the output divided by the bound.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.attention.bounds import BOUNDS, Bound, mixing_norm
from layers.attention.l2_bounds import ball_gain
from layers.orthogonal import Method, OrthogonalLinear


class OneLipschitzL2Attention(nn.Module):
    """Multi-head tied L2 attention whose output is divided by a bound on its Lipschitz constant.

    s_ij = -|q_i - q_j|^2 / alpha_1, rows of P are softmaxes over real tokens, and the output is
    W^O [P^1 Q^1, ..., P^H Q^H] / alpha_2. W^Q and W^O are orthogonal, alpha_1 > 0 is trained and
    alpha_2 follows from it. In the paper's terms W^{V,h} is W^{Q,h} times a number, and any other
    choice with orthogonal W^{Q,h}^T W^{V,h} is a part of W^O.

    Args:
        width: token width d, a multiple of `heads`.
        heads: number of heads H.
        initial_alpha_1: temperature at the start, in units of logits; sqrt(d / H) is the paper's.
        bound: formula for alpha_2, see `ball_gain`.
        orthogonal: parametrisation of the weights.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        initial_alpha_1: float = 4.0,
        bound: Bound = "sound",
        orthogonal: Method = "cayley",
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads or initial_alpha_1 <= 0 or bound not in BOUNDS:
            msg = (
                f"got {width=}, {heads=}, {initial_alpha_1=} and {bound=}, expected a width "
                f"divisible by the heads, a positive number and one of {', '.join(BOUNDS)}"
            )
            raise ValueError(msg)
        self.width, self.heads, self.bound = width, heads, bound
        self.query = OrthogonalLinear(width, width, method=orthogonal)
        self.output = OrthogonalLinear(width, width, method=orthogonal)
        # The inverse of softplus: alpha_1 stays positive whatever the optimiser does.
        self.raw_alpha_1 = nn.Parameter(torch.tensor(math.log(math.expm1(initial_alpha_1))))

    @property
    def alpha_1(self) -> Tensor:
        """The temperature, a positive scalar."""
        return functional.softplus(self.raw_alpha_1)

    def growth(self, lengths: Tensor, radius: Tensor) -> Tensor:
        """`[B]` bound on |alpha_2 y_i| / r for ideal weights (docs/certificates.md, Lemma 4)."""
        mixing = mixing_norm(4 * radius.square() / self.alpha_1, lengths)
        return torch.minimum(mixing, lengths.clamp_max(self.heads).sqrt())

    def alpha_2(self, lengths: Tensor, radius: Tensor) -> Tensor:
        """`[B]` the output scale, see `OneLipschitzSelfAttention`."""
        return ball_gain(self.alpha_1, lengths, radius=radius, bound=self.bound)

    def forward(self, x: Tensor, mask: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Attend over the real tokens, see `OneLipschitzSelfAttention`."""
        query = self.query(x).reshape(*x.shape[:-1], self.heads, -1).transpose(1, 2)
        squares = query.square().sum(dim=-1).unsqueeze(-2)
        # Without |q_i|^2, which the softmax ignores.
        scores = (2 * query @ query.mT - squares) / self.alpha_1
        weights = scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(dim=-1)
        lengths = mask.sum(dim=1).to(x.dtype)
        alpha_2 = self.alpha_2(lengths, radius)
        mixed = (weights @ query).transpose(1, 2).flatten(-2)
        out = self.output(mixed) / alpha_2[:, None, None]
        # A padded row, which does not see itself, has no Lipschitz constant: set it to zero.
        return out * mask.unsqueeze(-1), radius * self.growth(lengths, radius) / alpha_2
