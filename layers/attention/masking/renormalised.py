"""Masking single units in attention weights that are known already."""

import math
from typing import Any

import torch
from torch import Tensor


def renormalised(probabilities: Tensor, keep: Tensor) -> Tensor:
    """Attention weights of the units kept, from those of all; gradients as in `masked_attention`.

    For encoders whose scores cannot be reached. Where all that is left of a row has vanished beside
    what is masked, the units kept share it equally.

    Args:
        probabilities: `[B, H, N, N]`, after the softmax and before dropout.
        keep: `[B, 1, N, N]` or `[B, H, N, N]`, 1 for units that are kept and 0 for others; at
            least one of the real keys in each row, and no padding where something is masked.

    Returns:
        `[B, H, N, N]`.
    """
    out: Tensor = _Renormalised.apply(probabilities, keep)  # type: ignore[no-untyped-call] # of torch
    return out


class _Renormalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, keep: Tensor) -> Tensor:
        """Compute the weights."""
        weights = probabilities * keep
        total = weights.sum(dim=-1, keepdim=True)
        lost = total < torch.finfo(total.dtype).tiny
        # A row that loses nothing stays as it is, to the last bit.
        whole = (weights == probabilities).all(dim=-1, keepdim=True)
        total = total.masked_fill_(lost | whole, 1.0)
        weights.div_(total)
        if lost.any():
            equal = (keep / keep.sum(dim=-1, keepdim=True)).to(weights.dtype)
            weights = torch.where(lost, equal, weights)
        ctx.save_for_backward(probabilities, keep, total, weights, lost)
        return weights.to(probabilities.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """Compute the gradients of all weights, and of the mask."""
        probabilities, keep, total, weights, lost = ctx.saved_tensors
        change = outputs[0].to(weights.dtype)
        change = change - (change * weights).sum(dim=-1, keepdim=True)
        of_keep = None
        if ctx.needs_input_grad[1]:
            # Beside what has vanished, a unit alone would take the whole row.
            others = total.masked_fill(lost, 0.0)
            rest = (others + probabilities).clamp_min_(torch.finfo(total.dtype).tiny)
            alone = (probabilities / rest).mul_(1 - keep).add_(weights)
            of_keep = alone.mul_(change).to(keep.dtype)
            if keep.shape[1] == 1:
                of_keep = of_keep.sum(dim=1, keepdim=True)
        of_probabilities = change.mul_(keep).div_(total.masked_fill(lost, math.inf))
        return of_probabilities.to(probabilities.dtype), of_keep
