"""Dropout that drops the same in two passes over a batch: they then differ by their cause alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


class DropoutTape:
    """What was dropped in one pass, for another one over the same batch.

    Random numbers are drawn once. On a CPU, where drawing them takes a sixth of a training step,
    the second pass is that much faster than the first.
    """

    def __init__(self) -> None:
        self.mode: Literal["off", "record", "replay"] = "off"
        self._factors: list[Tensor] = []
        self._next = 0

    def __deepcopy__(self, memo: object) -> "DropoutTape":
        return DropoutTape()  # of another module, for passes of its own

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keep what is dropped, until the next recording or `clear`."""
        self._factors = []
        with self._in("record"):
            yield

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Drop what was dropped in the recording, in the same order."""
        self._next = 0
        with self._in("replay"):
            yield

    @contextmanager
    def _in(self, mode: Literal["record", "replay"]) -> Iterator[None]:
        self.mode = mode
        try:
            yield
        finally:
            self.mode = "off"

    def clear(self) -> None:
        """Free the memory."""
        self._factors = []

    def factors(self, like: Tensor, rate: float) -> Tensor:
        """What dropout multiplies by: 0, or 1 / (1 - rate).

        Args:
            like: of the shape, type and device that are wanted.
            rate: more than 0.

        Raises:
            RuntimeError: replaying, another pass than the recorded one.
        """
        if self.mode == "replay":
            known = self._factors[self._next] if self._next < len(self._factors) else None
            if known is None or known.shape != like.shape:
                found = None if known is None else tuple(known.shape)
                msg = (
                    f"got a dropout of {tuple(like.shape)} where {found} was recorded, expected "
                    "two passes over the same batch"
                )
                raise RuntimeError(msg)
            self._next += 1
            return known.to(like.dtype)
        drawn = _drawn(like, rate)
        if self.mode == "record":
            self._factors.append(drawn)
        return drawn


def _drawn(like: Tensor, rate: float) -> Tensor:
    """The random numbers that a plain dropout of this shape would draw, as factors."""
    if like.device.type == "cpu" and rate < 1:
        # As torch does there; its own function, given ones, goes over them twice more.
        return torch.empty_like(like, requires_grad=False).bernoulli_(1 - rate).div_(1 - rate)
    return functional.dropout(torch.ones_like(like, requires_grad=False), rate)


class SharedDropout(nn.Dropout):
    """A dropout layer that asks a tape; without recording or replay, like any other.

    Args:
        rate: share of the numbers that are dropped while training.
        tape: shared by all layers of a network.
    """

    def __init__(self, rate: float, tape: DropoutTape) -> None:
        super().__init__(rate)
        self.tape = tape

    def forward(self, x: Tensor) -> Tensor:
        """The numbers that are left."""
        if not self.training or self.p == 0 or self.tape.mode == "off":
            return super().forward(x)
        return x * self.tape.factors(x, self.p)


def share_dropout(network: nn.Module, tape: DropoutTape) -> None:
    """Let all dropout layers within a network ask a tape; weights and their names stay."""
    for name, module in list(network.named_modules()):
        if type(module) is nn.Dropout:
            shared = SharedDropout(module.p, tape).train(module.training)
            network.set_submodule(name, shared)
