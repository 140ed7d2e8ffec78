"""Lipschitz constants of tied L2 attention (Kim et al., 2021, Theorem 3.2).

Three formulas: `paper` is printed in Theorem 3.2, `kim` follows from its proof, and `sound` is
ours, which is smaller. docs/methods/l2_attention.md has the proofs, and an input for which the
printed one does not hold in the norm 2.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from layers.attention.bounds import Bound, mixing_norm
from layers.norms import NORMS, Norm

Formula = Literal["sound", "kim", "paper"]
FORMULAS: tuple[Formula, ...] = ("sound", "kim", "paper")
# Covers the rounding of float64 sums, singular values and of phi_inverse.
_EXACT = 1 + 1e-9


class L2Weights(NamedTuple):
    """The weights of tied L2 attention: of head h, the transposes of the paper's matrices.

    W^{Q,h}, which is W^{K,h}, too, is `[H, m, d]`, W^{V,h} is `[H, e, d]`; W^O is `[d, H e]`. The
    paper has m = e, and m = 2 e in its appendix M; the temperature is sqrt(e) in both.
    """

    query: Tensor
    value: Tensor
    output: Tensor

    def inner(self) -> Tensor:
        """`[H, m, e]`: W^{Q,h}^T W^{V,h} / sqrt(e), from queries to values."""
        return self.query @ self.value.mT / math.sqrt(self.value.shape[1])

    def outer(self) -> Tensor:
        """`[d, H m]`: from the mixed queries of all heads to the output of the layer."""
        heads = torch.unflatten(self.output, 1, (self.query.shape[0], -1)).transpose(0, 1)
        return (heads @ self.inner().mT).transpose(0, 1).flatten(1)


def phi_inverse(x: Tensor) -> Tensor:
    """Return c with c exp(c + 1) = x, which is W_0(x / e), in float64; x is N - 1 for N tokens."""
    # Theorem 3.2 prints W_0(N / e); its proof gives W_0((N - 1) / e), which is less.
    x = x.to(torch.float64)
    log = x.clamp_min(torch.finfo(torch.float64).tiny).log() - 1
    # Newton's method for exp(u) + u = log with u = log c: convex, so from the right it only falls.
    root = torch.where(log > 1, log.clamp_min(1.0).log(), log)
    for _ in range(20):
        root = root - (root.exp() + root - log) / (root.exp() + 1)
    return torch.where(x > 0, root.exp(), 0.0)


def mixing_gain(lengths: Tensor, *, size: int, norm: Norm, formula: Formula = "sound") -> Tensor:
    """`[B]` float64: Lipschitz constant of one head, from its queries Q of `size` numbers to P Q.

    Lengths `[B]` are the largest numbers of tokens that a token attends to, itself among them; norm
    and formula: see `l2_bound`.
    """
    tokens = lengths.to(torch.float64)
    variance, root = phi_inverse(tokens - 1), tokens.sqrt()
    if norm == "inf":
        spread = math.sqrt(size) if formula != "sound" else (1 + math.sqrt(size)) / 2
        return (4 * spread * variance + 1) * _EXACT
    if formula != "sound":
        return root * (4 * variance + 1) * _EXACT
    return (2 * variance * (1 + root) + root) * _EXACT


def ball_gain(alpha_1: Tensor, lengths: Tensor, *, radius: Tensor, bound: Bound) -> Tensor:
    """`[B]`: Lipschitz constant of one head, from its queries Q to P Q, in the norm 2.

    The weights are softmaxes of -|q_i - q_j|^2 / alpha_1, and queries lie in a ball.

    Args:
        alpha_1: temperature, positive scalar.
        lengths: `[B]` number of real tokens, floating point.
        radius: `[B]` bound on the norm of every query.
        bound: `sound`: docs/certificates.md, Theorem 3. `kim`: `mixing_gain` with the formula
            `kim`, which has neither temperature nor radius. `paper`: the same with W_0(N / e), the
            figure to which the OLSA paper compares its own.
    """
    variance, root = phi_inverse(lengths - 1).to(lengths), lengths.sqrt()
    if bound == "paper":
        return root * (4 * phi_inverse(lengths).to(lengths) + 1)
    if bound == "kim":
        return root * (4 * variance + 1)
    reach = radius.square() / alpha_1
    peak = 1 / (1 + (lengths - 1) * torch.exp(-4 * reach))
    through_queries = 2 * torch.minimum(reach, variance)
    through_keys = torch.minimum(
        4 * reach * (lengths * peak.clamp_max(0.5)).sqrt(), 2 * variance * root
    )
    return mixing_norm(4 * reach, lengths) + through_queries + through_keys


def l2_bound(
    weights: L2Weights, lengths: Tensor, *, norm: Norm, formula: Formula = "sound"
) -> Tensor:
    """`[B]` float64: Lipschitz constant of tied L2 attention, differentiable in the weights.

    It holds on all inputs, also with any masks under which every token attends to itself.

    Args:
        weights: of the layer.
        lengths: see `mixing_gain`.
        norm: `2` or `inf`, of all numbers of a text as one vector.
        formula: `sound`: ours. `kim`: Theorem 3.2 by its proof. `paper`: as printed, which in the
            norm 2 is not a bound where a head's query weights have a norm above 1.

    Raises:
        ValueError: another norm or formula.
    """
    if norm not in NORMS or formula not in FORMULAS:
        msg = (
            f"got norm={norm!r} and formula={formula!r}, expected one of {', '.join(NORMS)} and "
            f"one of {', '.join(FORMULAS)}"
        )
        raise ValueError(msg)
    weights = L2Weights(*(part.to(torch.float64) for part in weights))
    size = weights.value.shape[1]
    # The variance is that of queries, which may have more columns than e.
    gain = mixing_gain(lengths, size=weights.query.shape[1], norm=norm, formula=formula) * _EXACT
    query, output = _operator(weights.query, norm), _operator(weights.output, norm)
    if formula == "sound":
        joint = _operator(weights.query.flatten(0, 1), norm) * _operator(weights.outer(), norm)
        return gain * torch.minimum(
            joint, _over_heads(query * _operator(weights.inner().mT, norm), norm) * output
        )
    value = _operator(weights.value, norm)
    output = output / math.sqrt(size)
    if norm == "inf":
        pairs = query * _operator(weights.query.mT, norm)
        return gain * pairs.amax() * value.amax() * output
    squared = query if formula == "paper" else query.square()
    return gain * _over_heads(squared * value, norm) * output


def _over_heads(norms: Tensor, norm: Norm) -> Tensor:
    """Return the norm of x -> (y^1, ..., y^H), from the norm `[H]` of each x -> y^h."""
    return norms.amax() if norm == "inf" else norms.square().sum().sqrt()


def _operator(matrix: Tensor, norm: Norm) -> Tensor:
    """`[...]`: norm of x -> matrix x for `[..., n, m]`."""
    if norm == "inf":
        return matrix.abs().sum(dim=-1).amax(dim=-1)
    singular: Tensor = torch.linalg.svdvals(matrix)
    return singular[..., 0]
