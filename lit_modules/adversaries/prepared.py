"""A loss with precomputed gradients, which its backward pass returns.

Methods that compute the gradients of weights and of a perturbation in the same backward pass
(FreeLB) have both before they return the loss. With this loss, gradient clipping, accumulation,
reduction over processes and loss scaling work as usual.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Gradients:
    """Gradients of a sum of losses, which are differentiated one by one.

    Args:
        parameters: differentiate by these.
        scale: factor of losses in the backward pass, by which gradients are divided at the end: in
            half precision small gradients would underflow.
    """

    def __init__(self, parameters: Sequence[Tensor], *, scale: float = 1.0) -> None:
        self.parameters = list(parameters)
        self.scale = scale
        self._sums: list[Tensor | None] = [None] * len(self.parameters)

    def add(self, loss: Tensor, *, extra: Tensor | None = None) -> Tensor | None:
        """Differentiate a scalar loss, also by `extra`, and free its graph.

        Return the gradient of `extra` (zeros if the loss does not depend on it), times `scale`.
        """
        inputs = self.parameters if extra is None else [*self.parameters, extra]
        gradients: list[Tensor | None] = [
            *torch.autograd.grad(self.scale * loss, inputs, allow_unused=True)
        ]
        gradient = None if extra is None else gradients.pop()
        sums, more = [], []
        for i, new in enumerate(gradients):
            # None: the loss does not depend on this parameter.
            old = self._sums[i]
            if old is None:
                # The gradient of a sum is a view of a scalar, which cannot be added to in place.
                self._sums[i] = None if new is None else new.contiguous()
            elif new is not None:
                sums.append(old)
                more.append(new)
        if sums:
            torch._foreach_add_(sums, more)
        if extra is not None and gradient is None:
            gradient = torch.zeros_like(extra)
        return gradient

    def loss(self, value: Tensor) -> Tensor:
        """Return a scalar of this value, with the sums of all gradients."""
        pairs = [(p, g) for p, g in zip(self.parameters, self._sums, strict=True) if g is not None]
        if self.scale != 1:
            torch._foreach_div_([gradient for _, gradient in pairs], self.scale)
        gradients = [gradient for _, gradient in pairs]
        loss: Tensor = _Prepared.apply(value.detach(), gradients, *(p for p, _ in pairs))  # type: ignore[no-untyped-call] # of torch
        return loss


class _Prepared(torch.autograd.Function):
    """The identity of a number, with prepared gradients for the parameters."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *parameters: Tensor) -> Tensor:
        """Return the number."""
        del parameters
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """Return the gradients, times that of the number."""
        # Freed at once: a second backward pass is an error.
        gradients, ctx.gradients = ctx.gradients, None
        return (None, None, *(gradient * outputs[0] for gradient in gradients))
