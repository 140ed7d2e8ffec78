"""Projection of every token onto a Euclidean ball."""

import torch
from torch import Tensor


def project_to_ball(x: Tensor, radius: Tensor | float) -> Tensor:
    """Project vectors `[..., d]` onto the ball of a radius, also one that broadcasts to `[..., 1]`.

    The projection onto a convex set is 1-Lipschitz, while scaling every vector to norm `radius` is
    not: so a certified model starts with a projection.
    """
    # The square root has an infinite slope at zero, and padded rows are zero: clamp first.
    norm = x.square().sum(dim=-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny).sqrt()
    return x * (radius / norm).clamp_max(1.0)
