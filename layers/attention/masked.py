"""Attention in which single units are masked, with a gradient for what is masked and what not."""

from typing import Any

import torch
from torch import Tensor


def masked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    bias: Tensor | None,
    scaling: float,
    keep: Tensor | None = None,
    dropout: Tensor | None = None,
) -> Tensor:
    """Softmax attention over the units that are kept.

    For a unit that is kept, the gradient for `keep` is that of its attention weight p:
    p (g v_j - g o_i), with o_i the output and g its gradient. For one that is masked it is
    p+ (g v_j - g o_i), with p+ the weight that it would have if it alone were kept as well; so it
    is what the output would change by, to first order in o and exactly in p. (An additive bias of
    minus infinity has the gradient 0 there, and could never be taken back.)

    Args:
        query: `[B, H, N, d]`.
        key: `[B, H, N, d]`.
        value: `[B, H, N, d]`.
        bias: broadcast to `[B, H, N, N]`: bool, False at padding; or added to the scores. It gets
            no gradient.
        scaling: of the products of queries and keys.
        keep: `[B, 1, N, N]` or `[B, H, N, N]`, 1 for units that are kept and 0 for others; at
            least one of the real keys in each row. None keeps all.
        dropout: `[B, H, N, N]` factors of the attention weights, or None.

    Returns:
        `[B, H, N, d]`.
    """
    out: Tensor = _MaskedAttention.apply(  # type: ignore[no-untyped-call] # of torch
        query, key, value, keep, bias, dropout, scaling
    )
    return out


@torch.no_grad()
def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    bias: Tensor | None,
    scaling: float,
    keep: Tensor | None = None,
) -> Tensor:
    """`[B, H, N, N]` weights before dropout, in at least float32 and without a gradient."""
    return _biased(_scores(query, key, scaling), bias, keep).softmax(dim=-1)


def _scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    scores = (query * scaling) @ key.transpose(-1, -2)
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _biased(scores: Tensor, bias: Tensor | None, keep: Tensor | None = None) -> Tensor:
    """Scores with the lowest number at padding and at what is masked, in the same memory.

    It is added, in an array that is small where the heads share it: comparing and filling in the
    scores themselves takes as long as a product of matrices.
    """
    lowest = torch.finfo(scores.dtype).min
    if bias is not None and bias.dtype == torch.bool:
        bias = torch.zeros_like(bias, dtype=scores.dtype).masked_fill_(~bias, lowest)
    if bias is not None:
        scores.add_(bias)
    if keep is not None:
        scores.add_(torch.zeros_like(keep, dtype=scores.dtype).masked_fill_(keep == 0, lowest))
    # Two that meet, as what is masked and padding, are minus infinity: its weight is 0 as well.
    return scores


def _log_sums(scores: Tensor, weights: Tensor) -> Tensor:
    """`[.., 1]`: the log of the sum of each row's exponentials, from the softmax of it."""
    return scores.amax(dim=-1, keepdim=True) - weights.amax(dim=-1, keepdim=True).log()


class _MaskedAttention(torch.autograd.Function):
    """One pass over the scores each way; two arrays of their size stay in memory."""

    @staticmethod
    def forward(  # noqa: PLR0917 (torch passes them by position)
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        keep: Tensor | None,
        bias: Tensor | None,
        dropout: Tensor | None,
        scaling: float,
    ) -> Tensor:
        """The output."""
        scores = _scores(query, key, scaling)
        chosen = keep if ctx.needs_input_grad[3] else None
        if chosen is None:
            # Not exp(): of what is masked it takes, on a CPU, 30 times as long as softmax does.
            weights = _biased(scores, bias, keep).softmax(dim=-1)
            dropped = weights if dropout is None else weights * dropout
        else:
            scores = _biased(scores, bias)
            # Not in place: the scores of what is masked are needed once more.
            masked = torch.zeros_like(chosen, dtype=scores.dtype)
            masked.masked_fill_(chosen == 0, torch.finfo(scores.dtype).min)
            both = scores + masked
            used = both.softmax(dim=-1)
            alone = scores.sub_(_log_sums(both, used)).sigmoid_().mul_(1 - chosen)
            weights = alone.add_(used)
            dropped = used if dropout is None else used.mul_(dropout)
        dropped = dropped.to(value.dtype)
        out = dropped @ value
        ctx.scaling = scaling
        ctx.save_for_backward(query, key, value, chosen, dropout, weights, dropped, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """The gradients of queries, keys, values and what is kept."""
        query, key, value, keep, dropout, weights, dropped, out = ctx.saved_tensors
        gradient = outputs[0]
        of_value = dropped.transpose(-1, -2) @ gradient
        change = (gradient @ value.transpose(-1, -2)).to(weights.dtype)
        if dropout is not None:
            change.mul_(dropout)
        # A row's weights times its changes is its output times the gradient of that.
        change.sub_((gradient.to(weights.dtype) * out).sum(dim=-1, keepdim=True))
        change.mul_(weights)
        of_keep = None
        if keep is not None:
            of_keep = change.sum(dim=1, keepdim=True) if keep.shape[1] == 1 else change.clone()
            of_keep = of_keep.to(keep.dtype)
            change.mul_(keep)
        change = change.to(query.dtype)
        of_query = (change @ key).mul_(ctx.scaling)
        of_key = (change.transpose(-1, -2) @ query).mul_(ctx.scaling)
        return of_query, of_key, of_value, of_keep, None, None, None
