"""L2 self-attention: weights by the distance of query and key (Kim et al., 2021).

Source: "The Lipschitz Constant of Self-Attention", section 3.2. docs/methods/l2_attention.md has
the Lipschitz constants of the layers that have one.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention, exact
from layers.attention.l2_bounds import Formula, L2Weights, l2_bound
from layers.norms import NORMS, Norm

_HALVES = (torch.float16, torch.bfloat16)
# Unit of squared norms: those of float16 keys would overflow float16.
_UNIT = 256.0


def l2_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Mix values by softmax_j(-|q_i - k_j|^2 / sqrt(e)), in torch's fused attention.

    Args:
        query: `[B, H, N, m]`.
        key: `[B, H, M, m]`; more than queries if the first M - N tokens were computed before.
        value: `[B, H, M, e]`, with m = e, or m > e for queries and keys of more columns.
        mask: `[B, M]` bool, True at real tokens; None if all are. Others are not attended to,
            except that with `causal` each token attends to itself.
        causal: the queries are of the last N tokens, and each attends to itself and those before.
        dropout: on attention weights; above 0, no fused kernel on a CPU.

    Returns:
        `[B, H, N, e]`.
    """
    kind = query.device.type
    if torch.is_autocast_enabled(kind) and query.dtype == torch.float32:
        query, key, value = (x.to(torch.get_autocast_dtype(kind)) for x in (query, key, value))
    # Of the values, also where queries have more columns: the paper's temperature is sqrt(D / H).
    size = value.shape[-1]
    if mask is not None:
        key = key.masked_fill(~mask[:, None, :, None], 0.0)
    with exact(query):
        squares = _squares(key)
    more = squares.shape[-1]
    # Fused kernels need a width divisible by 8, and on a CPU values as wide as keys.
    rest = -(query.shape[-1] + more) % 8
    # |q - k|^2 = |q|^2 - 2 q.k + |k|^2, and the softmax of a row ignores |q|^2. So this is dot
    # product attention of [2q, -1] and [k, |k|^2], in time and memory of the fused kernel.
    unit = query.new_full((1,), -_UNIT).expand(*query.shape[:-1], more)
    query = functional.pad(torch.cat([2 * query, unit], dim=-1), (0, rest))
    key = functional.pad(torch.cat([key, squares], dim=-1), (0, rest))
    simple = causal and mask is None and query.shape[2] == key.shape[2]
    mixed = functional.scaled_dot_product_attention(
        query,
        key,
        functional.pad(value, (0, key.shape[-1] - size)),
        attn_mask=None if simple else _visible(query, key, mask, causal=causal),
        dropout_p=dropout,
        is_causal=simple,
        scale=size**-0.5,
    )
    return mixed[..., :size]


def _squares(key: Tensor) -> Tensor:
    """`[..., 1]`, or `[..., 3]` in half precision: parts whose sum is |k|^2, in `_UNIT`s."""
    if key.dtype not in _HALVES:
        return key.square().sum(dim=-1, keepdim=True) / _UNIT
    # In half precision |k|^2 would have an error of up to 1/256 of itself, different for each key.
    # Three parts have 24 bits together.
    rest = key.float().square().sum(dim=-1, keepdim=True) / _UNIT
    parts = []
    for _ in range(3):
        part = rest.to(key.dtype)
        parts.append(part)
        # The gradient goes through the first part: the others are constants of its rounding.
        rest = (rest - part.float()).detach()
    return torch.cat(parts, dim=-1)


def _visible(query: Tensor, key: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor | None:
    """Return a bool mask that broadcasts to `[B, H, N, M]`; None if each query sees all keys."""
    real = None if mask is None else mask[:, None, None, :]
    if not causal or query.shape[2] == 1 == key.shape[2]:
        return real
    rows, columns = query.shape[2], key.shape[2]
    ones = torch.ones(rows, columns, dtype=torch.bool, device=query.device)
    before = ones.tril(columns - rows)
    if real is None:
        return before
    own = ones.tril(columns - rows) & ones.triu(columns - rows)
    return before & (real | own)


class L2Attention(HeadedAttention):
    """L2 attention with own queries and keys, which is not Lipschitz (Lemma F.1)."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, **base: Any) -> None:
        """Make the projections; causal: a token attends to itself and those before it."""
        super().__init__(width, heads, **base)
        self.causal = causal

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """See `HeadedAttention`; without a mask all tokens are real."""
        dropout = self.dropout if self.training else 0.0
        return l2_attention(query, key, value, mask=mask, causal=self.causal, dropout=dropout).to(
            self.output.weight.dtype
        )


class TiedL2Attention(L2Attention):
    """L2 attention with W^K = W^Q, which is Lipschitz on all inputs (Theorem 3.2).

    Head h is P^h X A_h W^{V,h} with A_h = W^{Q,h} W^{Q,h}^T / sqrt(e). X W^{Q,h} are the queries,
    so its values are the queries times the e x e matrix W^{Q,h}^T W^{V,h} / sqrt(e). A bias of
    queries and keys would cancel, so `qkv` has the weights of queries and values without one.
    """

    def __init__(self, width: int, heads: int, *, wide: bool = False, **base: Any) -> None:
        """Make the projections; the rest: see `L2Attention`.

        With `wide` W^{Q,h} has 2 e columns, so that the layer has as many weights as one with its
        own keys (appendix M). The temperature and the divisor of A_h remain sqrt(e).
        """
        super().__init__(width, heads, **base)
        self.columns = (2 if wide else 1) * width
        self.qkv = nn.Linear(width, self.columns + width, bias=False)

    def weights(self) -> L2Weights:
        """Return the weights in the layout of the bounds."""
        parts = torch.split(self.qkv.weight, [self.columns, self.output.in_features])
        query, value = (torch.unflatten(part, 0, (self.heads, -1)) for part in parts)
        return L2Weights(query, value, self.output.weight)

    @override
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights = self.weights()
        query = functional.linear(x, weights.query.flatten(0, 1))
        query = torch.unflatten(query, -1, (self.heads, -1)).transpose(1, 2)
        return query, query, query @ weights.inner()

    def bound(self, lengths: Tensor, *, norm: Norm = "2", formula: Formula = "sound") -> Tensor:
        """`[B]` float64: Lipschitz constant on texts of `[B]` real tokens, dropout being off.

        The norm is that of all numbers of a text together; formula: see `l2_bound`.
        """
        return l2_bound(self.weights(), lengths, norm=norm, formula=formula)


class ContractiveL2Attention(TiedL2Attention):
    """Tied L2 attention divided by its bound for the longest text: its constant is at most 1.

    The bound is computed from the present weights, so their size does not matter. It ignores the
    rounding of autocast, and the factors of dropout while training.
    """

    def __init__(
        self, width: int, heads: int, *, length: int, norm: Norm = "inf", **base: Any
    ) -> None:
        """Make the projections; the rest: see `L2Attention`.

        The length is that of the longest text for all texts: with each text's own length, the
        output of a causal layer would depend on later tokens. The norm `inf` is the paper's choice,
        as its bound grows less with the length.

        Raises:
            ValueError: no tokens, or another norm.
        """
        super().__init__(width, heads, **base)
        if length < 1 or norm not in NORMS:
            msg = f"got length={length} and norm={norm!r}, expected 1 token or more and 2 or inf"
            raise ValueError(msg)
        self.length, self.norm = length, norm

    @override
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if x.shape[1] > self.length:
            msg = f"got {x.shape[1]} tokens, expected at most length={self.length}; truncate"
            raise ValueError(msg)
        query, key, value = super().project(x)
        with exact(x):
            lengths = torch.tensor([self.length], device=x.device)
            scale = self.bound(lengths, norm=self.norm).clamp_min(1e-30)
        return query, key, value / scale.to(value.dtype)
