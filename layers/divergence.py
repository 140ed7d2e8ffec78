"""Divergences of predictions, whose gradients are exactly zero where predictions are equal."""

from typing import Any

import torch
from torch import Tensor


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return `[...]` Kullback-Leibler divergences KL(p || q) of softmax outputs, at least float32.

    The logits `[..., C]` of p come first, those of q second.
    """
    # Autograd on the formula would leave rounding errors of 1e-8 in the gradient of equal
    # predictions.
    value: Tensor = _Divergence.apply(first, second)  # type: ignore[no-untyped-call] # of torch
    return value


def symmetric_divergence(first: Tensor, second: Tensor) -> Tensor:
    """`[...]` KL(p || q) + KL(q || p), the loss of SMART (Jiang et al., 2020, section 3.1)."""
    return divergence(first, second) + divergence(second, first)


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        """Compute the divergence."""
        kind = torch.promote_types(first.dtype, torch.float32)
        p, q = first.to(kind).log_softmax(dim=-1), second.to(kind).log_softmax(dim=-1)
        change = p - q
        value = (p.exp() * change).sum(dim=-1)
        ctx.kinds = first.dtype, second.dtype
        ctx.save_for_backward(p, q, change, value)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """Compute the gradients of both logits."""
        p, q, change, value = ctx.saved_tensors
        gradient = outputs[0].unsqueeze(-1)
        of_first = gradient * p.exp() * (change - value.unsqueeze(-1))
        of_second = gradient * (q.exp() - p.exp())
        return of_first.to(ctx.kinds[0]), of_second.to(ctx.kinds[1])
