"""Attention with a mask for each unit, and a gradient for masked and unmasked units."""

from typing import Any

import torch
from torch import Tensor

# Scores that are processed at a time: 4 MiB in single precision.
_CHUNK = 1 << 20


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
    p (g v_j - g o_i), with o_i the output and g its gradient. For a masked unit it is
    p+ (g v_j - g o_i), with p+ its weight if only this unit were unmasked: the change of the
    output, to first order in o and exactly in p. (An additive bias of minus infinity has the
    gradient 0 there, so that training could never unmask the unit.)

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
    query: Tensor, key: Tensor, *, bias: Tensor | None, scaling: float, keep: Tensor | None = None
) -> Tensor:
    """`[B, H, N, N]` weights before dropout, in at least float32 and without a gradient."""
    return _biased(_scores(query, key, scaling), bias, keep).softmax(dim=-1)


def _scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    scores = (query * scaling) @ key.transpose(-1, -2)
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _biased(scores: Tensor, bias: Tensor | None, keep: Tensor | None = None) -> Tensor:
    """Add the lowest number to the scores of padding and of masked units, in place."""
    # The array that is added is small where heads share it. Comparing and filling the scores
    # themselves would take as long as a product of matrices.
    if bias is not None and bias.dtype == torch.bool:
        bias = _lowest(~bias, scores.dtype)
    if bias is not None:
        scores.add_(bias)
    if keep is not None:
        scores.add_(_lowest(keep == 0, scores.dtype))
    # Where both are added, the sum overflows to minus infinity: the weight is 0 as well.
    return scores


def _lowest(positions: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the lowest number where True, and 0 elsewhere."""
    return torch.zeros_like(positions, dtype=dtype).masked_fill_(positions, torch.finfo(dtype).min)


def _chunks(weights: Tensor) -> list[slice]:
    """Return parts of a batch whose scores fit into the cache of a CPU."""
    batch, size = len(weights), weights[:1].numel()
    step = max(1, _CHUNK // max(1, size)) if weights.device.type == "cpu" else max(1, batch)
    return [slice(first, first + step) for first in range(0, batch, step)]


class _MaskedAttention(torch.autograd.Function):
    """One pass over the scores each way; only one array of their size, the weights, is saved."""

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
        """Return the output."""
        batch, heads, length = query.shape[:3]
        dtype = torch.promote_types(query.dtype, torch.float32)
        weights = query.new_empty((batch, heads, length, key.shape[2]), dtype=dtype)
        out = value.new_empty((batch, heads, length, value.shape[3]))
        if bias is not None:
            bias = bias.expand(batch, *bias.shape[1:])
        learnt = ctx.needs_input_grad[3]
        for part in _chunks(weights):
            scores = _scores(query[part], key[part], scaling)
            padding = None if bias is None else bias[part]
            chosen = None if keep is None else keep[part]
            if chosen is None or not learnt:
                # Not exp(): on a CPU it takes 30 times as long for masked units as softmax does.
                used = torch.softmax(_biased(scores, padding, chosen), dim=-1, out=weights[part])
                dropped = used if dropout is None else used * dropout[part]
            else:
                scores = _biased(scores, padding)
                # Not in place: the scores of masked units are needed once more.
                both = scores + _lowest(chosen == 0, scores.dtype)
                used = both.softmax(dim=-1)
                # p+ of a masked unit is e^s / (e^s + sum of the kept) = sigmoid(s - log sum).
                log_sum = both.amax(dim=-1, keepdim=True) - used.amax(dim=-1, keepdim=True).log()
                alone = scores.sub_(log_sum).sigmoid_().mul_(1 - chosen)
                torch.add(alone, used, out=weights[part])
                dropped = used if dropout is None else used.mul_(dropout[part])
            out[part] = dropped.to(value.dtype) @ value[part]
        ctx.scaling = scaling
        ctx.save_for_backward(query, key, value, keep if learnt else None, dropout, weights, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """Return the gradients of queries, keys, values and masks."""
        query, key, value, keep, dropout, weights, out = ctx.saved_tensors
        of_query, of_key, of_value = (torch.empty_like(part) for part in (query, key, value))
        of_keep = None if keep is None else torch.empty_like(keep)
        for part in _chunks(weights):
            gradient, used = outputs[0][part], weights[part]
            # Masked and dropped once more: that costs less than saving the product.
            dropped = used if keep is None else used * keep[part]
            dropped = dropped if dropout is None else dropped * dropout[part]
            of_value[part] = dropped.to(value.dtype).transpose(-1, -2) @ gradient
            change = (gradient @ value[part].transpose(-1, -2)).to(used.dtype)
            if dropout is not None:
                change.mul_(dropout[part])
            # Softmax backward: sum_j p_j (g v_j) = g o_i.
            change.sub_((gradient.to(used.dtype) * out[part]).sum(dim=-1, keepdim=True))
            change.mul_(used)
            if keep is not None and of_keep is not None:
                of_keep[part] = change.sum(dim=1, keepdim=True) if keep.shape[1] == 1 else change
                change.mul_(keep[part])
            change = change.to(query.dtype)
            of_query[part] = (change @ key[part]).mul_(ctx.scaling)
            of_key[part] = (change.transpose(-1, -2) @ query[part]).mul_(ctx.scaling)
        return of_query, of_key, of_value, of_keep, None, None, None
