"""A loss with precomputed gradients, which its backward pass hands on.

Methods that take the gradient of weights and of a perturbation in the same backward pass (FreeLB)
have both before the step's loss is returned. With this loss, gradient clipping, accumulation,
reduction over processes and loss scaling work as usual.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Gradients:
    """Gradients of a sum of losses, taken one loss after the other.

    Args:
        parameters: parameters to differentiate by.
        scale: losses are multiplied by this before, and gradients divided by it after: in half
            precision small gradients would be zero on their way.
    """

    def __init__(self, parameters: Sequence[Tensor], *, scale: float = 1.0) -> None:
        self.parameters = list(parameters)
        self.scale = scale
        self._sums: list[Tensor | None] = [None] * len(self.parameters)

    def add(self, loss: Tensor, *, wanted: Tensor | None = None) -> Tensor | None:
        """Differentiate a loss; its graph is gone afterwards.

        Args:
            loss: a scalar.
            wanted: one more tensor whose gradient is asked for.

        Returns:
            The gradient of `wanted` (zeros if the loss does not depend on it), times `scale`.
        """
        inputs = self.parameters if wanted is None else [*self.parameters, wanted]
        found: list[Tensor | None] = [
            *torch.autograd.grad(self.scale * loss, inputs, allow_unused=True)
        ]
        gradient = None if wanted is None else found.pop()
        sums, more = [], []
        for i, new in enumerate(found):
            old = self._sums[i]
            if old is None:
                self._sums[i] = new
            elif new is not None:
                sums.append(old)
                more.append(new)
        if sums:
            torch._foreach_add_(sums, more)
        if wanted is not None and gradient is None:
            gradient = torch.zeros_like(wanted)
        return gradient

    def loss(self, value: Tensor) -> Tensor:
        """A scalar of this value, with the gradients that have been added up."""
        pairs = [(p, g) for p, g in zip(self.parameters, self._sums, strict=True) if g is not None]
        if self.scale != 1:
            torch._foreach_div_([gradient for _, gradient in pairs], self.scale)
        kept = [gradient for _, gradient in pairs]
        loss: Tensor = _Prepared.apply(value.detach(), kept, *(p for p, _ in pairs))  # type: ignore[no-untyped-call] # of torch
        return loss


class _Prepared(torch.autograd.Function):
    """The identity of a number, which hands prepared gradients to the parameters."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *parameters: Tensor) -> Tensor:
        """The number."""
        del parameters
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """The gradients, times that of the number."""
        gradients, ctx.gradients = ctx.gradients, None
        return (None, None, *(gradient * outputs[0] for gradient in gradients))
