"""The properties that every self-attention must have, on a small batch."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

GARBAGE = 1e3
"""Size of the numbers in the padding."""


class AttentionCheck:
    """Refuses a self-attention that lacks one of the properties that training relies on.

    For tokens `[B, N, d]` and their mask `[B, N]`, in evaluation mode, with garbage in the padding:

    1. the output is a tensor of the shape of the tokens,
    2. it is finite everywhere, also at padding,
    3. a second pass gives the same output,
    4. a text has the same output at its real tokens in a padded batch and alone,
    5. the gradients of its real tokens are finite, for the tokens and the parameters.

    The check has no side effects: no gradients, no changed mode, no drawn random numbers.
    """

    def __init__(
        self,
        width: int,
        *,
        sizes: Sequence[int] = (1, 3, 7),
        longest: int = 512,
        tolerance: float = 1e-3,
    ) -> None:
        """Draw the texts.

        Args:
            width: token width d.
            sizes: tokens of each text.
            longest: longest text that the attention supports; longer texts are cut to it.
            tolerance: largest difference of two outputs that count as equal, in units of the
                largest output, at least 1.
        """
        self.sizes = [min(size, longest) for size in sizes]
        self.tolerance = tolerance
        length = min(max(self.sizes) + 2, longest)
        generator = torch.Generator().manual_seed(0)
        drawn, garbage = torch.randn(
            *(2, len(self.sizes), length, width),
            generator=generator,
            device="cpu",
            dtype=torch.float64,
        )
        positions = torch.arange(length, device="cpu")
        self.mask = positions < torch.tensor(self.sizes, device="cpu")[:, None]
        self.x: Tensor = torch.where(self.mask.unsqueeze(-1), drawn, GARBAGE * garbage)

    def __call__(self, module: nn.Module, name: str) -> None:
        """Check an attention, from tokens `[B, N, d]` and mask `[B, N]`; the name is for messages.

        Raises:
            ValueError: a property is broken; the message names it.
        """
        # No side effects: modes and random states are restored.
        training = module.training
        first = next(module.parameters(), torch.empty(0))
        devices = [first.device] if first.is_cuda else []
        with torch.random.fork_rng(devices), torch.enable_grad():
            module.eval()
            try:
                self._check(module, f"got attention {name}", first)
            finally:
                module.train(training)

    def _check(self, module: nn.Module, got: str, like: Tensor) -> None:
        x, mask = self.x.to(like).requires_grad_(), self.mask.to(like.device)
        out: object = module(x, mask)
        if not isinstance(out, Tensor) or out.shape != x.shape:
            shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            msg = f"{got}, which makes {shape} of tokens {list(x.shape)}, expected the same shape"
            raise ValueError(msg)
        if not bool(out.isfinite().all()):
            msg = (
                f"{got}, whose output is not finite everywhere, expected finite numbers, at "
                "padding, too, whatever stands there"
            )
            raise ValueError(msg)
        if (gap := self._gap(module(x, mask), out)) is not None:
            msg = (
                f"{got}, whose output is another when it is computed again (by {gap:.2g}), "
                "expected the same in evaluation mode"
            )
            raise ValueError(msg)
        for row, size in enumerate(self.sizes):
            alone = module(x[row : row + 1, :size].detach(), mask[row : row + 1, :size])
            if (gap := self._gap(out[row : row + 1, :size], alone)) is not None:
                msg = (
                    f"{got}, whose output for a text of {size} tokens is another in a padded batch "
                    f"than alone (by {gap:.2g}), expected the same: padding must have no "
                    "influence; use the mask, which is True at real tokens"
                )
                raise ValueError(msg)
        inputs = [x, *(part for part in module.parameters() if part.requires_grad)]
        gradients: Sequence[Tensor | None] = (
            torch.autograd.grad(out[mask].square().sum(), inputs, allow_unused=True)
            if out.requires_grad
            else []
        )
        if not all(part is None or bool(part.isfinite().all()) for part in gradients):
            msg = f"{got}, whose gradients are not finite, expected finite ones"
            raise ValueError(msg)

    def _gap(self, output: Tensor, expected: Tensor) -> float | None:
        """Return the largest difference; None if it is small."""
        if output.shape != expected.shape:
            return float("inf")
        gap = float((output - expected).detach().abs().max())
        scale = max(1.0, float(expected.detach().abs().max()))
        return None if gap <= self.tolerance * scale else gap
