"""The gradient reversal layer: the identity, whose gradient has the other sign.

Source: Ganin and Lempitsky, "Unsupervised Domain Adaptation by Backpropagation", 2015, section 3.
"""

import math
from typing import Any

import torch
from torch import Tensor


def reverse_gradient(x: Tensor, coefficient: float = 1.0) -> Tensor:
    """Return the input; gradients are multiplied by `-coefficient`, which is finite and at least 0.

    In one backward pass, layers before it maximise the loss that layers after it minimise.

    Raises:
        ValueError: another coefficient.
    """
    if not 0 <= coefficient < math.inf:
        msg = f"got {coefficient=}, expected a finite number of at least 0"
        raise ValueError(msg)
    reversed_: Tensor = _Reversal.apply(x, coefficient)  # type: ignore[no-untyped-call] # of torch
    return reversed_


def reversal_coefficient(progress: float, *, steepness: float = 10.0) -> float:
    """Return the coefficient, from 0 to nearly 1 as progress goes from 0 to 1 (section 3.1).

    The steepness is gamma; 10 in the paper.
    """
    return 2 / (1 + math.exp(-steepness * min(max(progress, 0.0), 1.0))) - 1


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: float) -> Tensor:
        """Return the input."""
        ctx.coefficient = coefficient
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """Reverse the gradient."""
        return -ctx.coefficient * outputs[0], None
