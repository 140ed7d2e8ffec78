"""Closed-form Lipschitz bounds of a softmax attention layer on tokens of bounded norm.

`sound` is our theorem (proof in docs/certificates.md). `paper` is the bound that the OLSA paper
prints as Theorem 4.1; its proof does not hold and neither does the statement for short inputs
(docs/certificates.md has the counterexample), so it is here for reproduction only.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Bound = Literal["sound", "paper", "kim"]
BOUNDS: tuple[Bound, ...] = ("sound", "paper", "kim")
ADDITIVE_BOUNDS: tuple[Bound, ...] = ("sound", "paper")
"""Bounds of additive attention; `kim` is for tied L2 attention."""


class AttentionNorms(NamedTuple):
    """Norms of an additive-attention layer's weights; all 1 for the ideal OLSA layer.

    Attributes:
        query: spectral norm of W^Q.
        key: spectral norm of W^K.
        value: spectral norm of W^V.
        score: largest norm of a head's score vector W_h^S.
        kappa: largest half-range norm of a head's score gradient, at most `score`: bounds the
            change of a row's logits with the query, up to a constant of the row.
    """

    query: Tensor | float = 1.0
    key: Tensor | float = 1.0
    value: Tensor | float = 1.0
    score: Tensor | float = 1.0
    kappa: Tensor | float = 1.0


def mixing_norm(oscillation: Tensor, lengths: Tensor) -> Tensor:
    """Bound the spectral norm of a row-stochastic N x N matrix with nearly equal log-entries.

    The oscillation is the largest difference of two logits of one row; it broadcasts with lengths N
    of at least 1. The bound A(omega, N) <= sqrt(N) is 1 for uniform rows.
    """
    # The first branch's argument is clamped so that the branch not taken stays finite.
    neighbours = (lengths - 1).clamp_min(1.0)
    flat = torch.cosh(torch.minimum(oscillation, neighbours.log()) / 2)
    peak = (lengths * (1 + (lengths - 1) * torch.exp(-2 * oscillation))).sqrt() / (
        1 + (lengths - 1) * torch.exp(-oscillation)
    )
    return torch.where(oscillation <= neighbours.log(), flat, peak)


def attention_bound(
    alpha_1: Tensor,
    lengths: Tensor,
    *,
    radius: Tensor,
    value_radius: Tensor,
    norms: AttentionNorms | None = None,
    bound: Bound = "sound",
) -> Tensor:
    """Return the Lipschitz constant of additive attention before its scaling, in Frobenius norms.

    Args:
        alpha_1: temperature, positive scalar.
        lengths: `[B]` number of real tokens of each input, as a floating-point tensor.
        radius: `[B]` bound on the norm of every input token.
        value_radius: `[B]` bound on the norm of one head's value vector of one token.
        norms: norms of the weights; 1 each if not given.
        bound: `sound`: docs/certificates.md, Theorem 1. `paper`: OLSA, Theorem 4.1 with
            c = sqrt(N) radius, which assumes unit norms.

    Returns:
        `[B]` upper bounds (`paper`: the printed value) for inputs of that length.
    """
    if bound not in ADDITIVE_BOUNDS:
        msg = f"got bound={bound!r}, which is of tied L2 attention, expected sound or paper"
        raise ValueError(msg)
    if bound == "paper":
        return 1 + lengths * radius / (4 * alpha_1)
    norms = AttentionNorms() if norms is None else norms
    oscillation = norms.score * norms.key * radius / alpha_1
    # The greatest possible attention weight; p (1 - p) <= 1/4 bounds the softmax's derivative.
    peak = 1 / (1 + (lengths - 1) * torch.exp(-oscillation))
    through_values = norms.value * mixing_norm(oscillation, lengths)
    through_queries = norms.kappa * norms.query
    through_keys = norms.score * norms.key * (lengths * peak.clamp_max(0.5)).sqrt()
    total = through_values + value_radius / (2 * alpha_1) * (through_queries + through_keys)
    # A single token attends to itself whatever the logits are.
    return torch.where(lengths <= 1, torch.as_tensor(norms.value).to(total), total)
