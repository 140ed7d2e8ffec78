"""Masks units in attention weights after the softmax."""

import math
from typing import Any

import torch
from torch import Tensor


def renormalised(probabilities: Tensor, keep: Tensor) -> Tensor:
    """Return the attention weights of kept units from those of all units, `[B, H, N, N]`.

    For encoders whose scores are not accessible; gradients as in `masked_attention`. Probabilities
    are those after the softmax and before dropout; `keep` is 1 for units that are kept, at least
    one of the real keys in each row, and no padding where something is masked.
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
        # A row without masked units must not change in the last bit, so it is not divided.
        unmasked = (weights == probabilities).all(dim=-1, keepdim=True)
        total = total.masked_fill_(lost | unmasked, 1.0)
        weights.div_(total)
        # Where the weights of all kept units of a row underflow, these units get equal weights.
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
            # In a lost row, a single masked unit would get all of the weight if it were unmasked.
            rest = total.masked_fill(lost, 0.0) + probabilities
            rest.clamp_min_(torch.finfo(total.dtype).tiny)
            alone = (probabilities / rest).mul_(1 - keep).add_(weights)
            of_keep = alone.mul_(change).to(keep.dtype)
            if keep.shape[1] == 1:
                of_keep = of_keep.sum(dim=1, keepdim=True)
        of_probabilities = change.mul_(keep).div_(total.masked_fill(lost, math.inf))
        return of_probabilities.to(probabilities.dtype), of_keep
