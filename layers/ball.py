"""Projection of every token onto a Euclidean ball."""

import torch
from torch import Tensor


def project_to_ball(x: Tensor, radius: Tensor | float) -> Tensor:
    """The nearest point of the ball of `radius` around the origin, for every last-axis vector.

    The projection onto a convex set is 1-Lipschitz; scaling every vector to norm `radius`
    (normalisation) is not, which is why a certified model starts with this and not with that.

    Args:
        x: `[..., d]`.
        radius: a number, or a tensor that broadcasts against `[..., 1]`.
    """
    # The square root has an infinite slope at zero, and padded rows are zero: clamp first.
    norm = x.square().sum(dim=-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny).sqrt()
    return x * (radius / norm).clamp_max(1.0)
