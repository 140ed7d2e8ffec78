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
        bias: broadcast to `[B, H, N, N]`: bool, False at padding; or added to the scores.
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


def attention_scores(query: Tensor, key: Tensor, bias: Tensor | None, scaling: float) -> Tensor:
    """`[B, H, N, N]` scores before the softmax, at least float32."""
    scores = (query * scaling) @ key.transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if bias is None:
        return scores
    if bias.dtype == torch.bool:
        return scores.masked_fill_(~bias, torch.finfo(scores.dtype).min)
    return scores.add_(bias.to(scores.dtype))


class _MaskedAttention(torch.autograd.Function):
    """One pass over the scores each way, and two of their size in memory."""

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
        scores = attention_scores(query, key, bias, scaling)
        weights = _weights(scores, keep)
        used = weights if keep is None else weights * keep
        used = used if dropout is None else used * dropout
        out = used.to(value.dtype) @ value
        ctx.scaling = scaling
        ctx.save_for_backward(query, key, value, keep, dropout, weights, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """The gradients of queries, keys, values and what is kept."""
        query, key, value, keep, dropout, weights, out = ctx.saved_tensors
        gradient = outputs[0]
        used = weights if keep is None else weights * keep
        dropped = used if dropout is None else used * dropout
        of_value = dropped.to(value.dtype).transpose(-1, -2) @ gradient
        change = (gradient @ value.transpose(-1, -2)).to(weights.dtype)
        if dropout is not None:
            change.mul_(dropout)
        # A row's weights times its changes is its output times the gradient of that.
        change.sub_((gradient * out).sum(dim=-1, keepdim=True))
        change.mul_(weights)
        of_keep = None
        if keep is not None:
            if ctx.needs_input_grad[3]:
                of_keep = change.sum(dim=1, keepdim=True) if keep.shape[1] == 1 else change.clone()
                of_keep = of_keep.to(keep.dtype)
            change.mul_(keep)
        change = change.to(query.dtype)
        of_query = (change @ key).mul_(ctx.scaling)
        of_key = (change.transpose(-1, -2) @ query).mul_(ctx.scaling)
        return of_query, of_key, of_value, of_keep, None, None, None


def _weights(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Attention weights of the units kept; of each other one, what it would be if kept as well."""
    if keep is None:
        return scores.softmax(dim=-1)
    masked = keep == 0
    left = scores.masked_fill(masked, torch.finfo(scores.dtype).min)
    weights = left.softmax(dim=-1)
    # log of the sum over units kept: at the greatest score, the weight is e^(score - sum).
    total = left.amax(dim=-1, keepdim=True) - weights.amax(dim=-1, keepdim=True).log()
    return torch.where(masked, scores.sub_(total).sigmoid_(), weights)


def renormalised(probabilities: Tensor, keep: Tensor) -> Tensor:
    """Attention weights of the units kept, from those of all; gradients as `masked_attention`.

    For encoders whose scores cannot be reached. Where all that is left of a row has vanished beside
    what is masked, the units kept share it equally.

    Args:
        probabilities: `[B, H, N, N]`, after the softmax and before dropout.
        keep: as above.

    Returns:
        `[B, H, N, N]`.
    """
    out: Tensor = _Renormalised.apply(probabilities, keep)  # type: ignore[no-untyped-call] # of torch
    return out


class _Renormalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, keep: Tensor) -> Tensor:
        """The weights."""
        kept = probabilities * keep
        total = kept.sum(dim=-1, keepdim=True)
        lost = total < torch.finfo(total.dtype).tiny
        equal = keep / keep.sum(dim=-1, keepdim=True)
        # A row of which nothing is masked stays as it is, to the last bit.
        total = total.masked_fill(lost | (keep == 1).all(dim=-1, keepdim=True), 1.0)
        weights = torch.where(lost, equal.to(kept.dtype), kept / total)
        ctx.save_for_backward(probabilities, keep, total, weights)
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """The gradients of the weights of all, and of what is kept."""
        probabilities, keep, total, weights = ctx.saved_tensors
        change = outputs[0] - (outputs[0] * weights).sum(dim=-1, keepdim=True)
        of_probabilities = keep * change / total
        if not ctx.needs_input_grad[1]:
            return of_probabilities, None
        alone = probabilities / (total + (1 - keep) * probabilities)
        of_keep = (alone * change).to(keep.dtype)
        if keep.shape[1] == 1:
            of_keep = of_keep.sum(dim=1, keepdim=True)
        return of_probabilities, of_keep
