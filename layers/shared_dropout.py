"""Shares dropout, and results that are the same, between two passes over a batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


class DropoutTape:
    """The dropout of one pass, for another pass over the same batch.

    Random numbers are drawn once. On a CPU, where drawing them takes a sixth of a training step,
    the second pass is that much faster than the first. Layers before the cause by which the passes
    differ (`SharedLinear`) are computed once as well.
    """

    def __init__(self) -> None:
        self.mode: Literal["off", "record", "replay"] = "off"
        self._factors: list[Tensor] = []
        self._results: list[Tensor] = []
        self._next = self._next_result = 0

    def __deepcopy__(self, memo: object) -> "DropoutTape":
        return DropoutTape()  # of another module, for passes of its own

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keep what is dropped, until the next recording or `clear`."""
        self.clear()
        with self._in("record"):
            yield

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Drop what was dropped in the recording, in the same order."""
        self._next = self._next_result = 0
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
        self._factors, self._results = [], []

    def result(self, shape: tuple[int, ...], compute: Callable[[], Tensor]) -> Tensor:
        """Return the value that both passes share; computed anew outside of them.

        Args:
            shape: that it has.
            compute: makes it.

        Raises:
            RuntimeError: replaying, another pass than the recorded one.
        """
        if self.mode != "replay":
            made = compute()
            if self.mode == "record":
                self._results.append(made)
            return made
        place, self._next_result = self._next_result, self._next_result + 1
        known = self._results[place] if place < len(self._results) else None
        if known is None or known.shape != shape:
            found = None if known is None else tuple(known.shape)
            msg = f"got a layer of {shape} where {found} was recorded, expected the same batch"
            raise RuntimeError(msg)
        return known

    def factors(self, like: Tensor, rate: float) -> Tensor:
        """Return the factors of dropout: 0, or 1 / (1 - rate).

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
        """Apply dropout."""
        if not self.training or self.p == 0 or self.tape.mode == "off":
            return super().forward(x)
        return x * self.tape.factors(x, self.p)


class SharedLinear(nn.Linear):
    """A linear map whose input is the same in both passes.

    Args:
        linear: whose weights it takes over.
        tape: tape of random numbers, see `DropoutTape`.
    """

    def __init__(self, linear: nn.Linear, tape: DropoutTape) -> None:
        bias = linear.bias is not None
        super().__init__(linear.in_features, linear.out_features, bias=bias, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.tape = tape

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map."""
        shape = (*x.shape[:-1], self.out_features)
        return self.tape.result(shape, lambda: super(SharedLinear, self).forward(x))


def share_dropout(network: nn.Module, tape: DropoutTape) -> None:
    """Let all dropout layers within a network ask a tape; weights and their names stay."""
    for name, module in list(network.named_modules()):
        if type(module) is nn.Dropout:
            shared = SharedDropout(module.p, tape).train(module.training)
            network.set_submodule(name, shared)
