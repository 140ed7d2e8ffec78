"""Shares dropout, and equal intermediate results, between two passes over a batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


class DropoutTape:
    """The dropout of one pass, for another pass over the same batch.

    Random numbers are drawn once; on a CPU, drawing them takes a sixth of a training step. Layers
    whose input is the same in both passes (`SharedLinear`) are computed once as well.
    """

    def __init__(self) -> None:
        self.mode: Literal["off", "record", "replay"] = "off"
        self._factors: list[Tensor] = []
        self._results: list[Tensor] = []
        self._next = self._next_result = 0

    def __deepcopy__(self, memo: object) -> "DropoutTape":
        return DropoutTape()  # the copied module has its own passes

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the dropout of a pass, until the next recording or `clear`."""
        self.clear()
        with self._in("record"):
            yield

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Repeat the recorded dropout, in the same order."""
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
        """Return the value that both passes share; outside of them it is always computed.

        Raises:
            RuntimeError: replaying, another pass than the recorded one.
        """
        if self.mode != "replay":
            computed = compute()
            if self.mode == "record":
                self._results.append(computed)
            return computed
        index, self._next_result = self._next_result, self._next_result + 1
        recorded = self._results[index] if index < len(self._results) else None
        if recorded is None or recorded.shape != shape:
            size = None if recorded is None else tuple(recorded.shape)
            msg = f"got a layer of {shape} where {size} was recorded, expected the same batch"
            raise RuntimeError(msg)
        return recorded

    def factors(self, like: Tensor, rate: float) -> Tensor:
        """Return the factors of dropout, 0 or 1 / (1 - rate), with the shape and type of `like`.

        Raises:
            RuntimeError: replaying, another pass than the recorded one.
        """
        if self.mode == "replay":
            recorded = self._factors[self._next] if self._next < len(self._factors) else None
            if recorded is None or recorded.shape != like.shape:
                size = None if recorded is None else tuple(recorded.shape)
                msg = (
                    f"got a dropout of {tuple(like.shape)} where {size} was recorded, expected "
                    "two passes over the same batch"
                )
                raise RuntimeError(msg)
            self._next += 1
            # The passes may have different precisions (autocast): the same units are dropped in
            # both.
            return recorded.to(like.dtype)
        drawn = _draw(like, rate)
        if self.mode == "record":
            self._factors.append(drawn)
        return drawn


def _draw(like: Tensor, rate: float) -> Tensor:
    """Draw the factors of a plain dropout of this shape, with the same random numbers."""
    if like.device.type == "cpu" and rate < 1:
        # Torch's own steps; its function, called with ones, would need two more passes over them.
        return torch.empty_like(like, requires_grad=False).bernoulli_(1 - rate).div_(1 - rate)
    return functional.dropout(torch.ones_like(like, requires_grad=False), rate)


class SharedDropout(nn.Dropout):
    """A dropout layer that uses a network's tape; else an ordinary one."""

    def __init__(self, rate: float, tape: DropoutTape) -> None:
        super().__init__(rate)
        self.tape = tape

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout."""
        if not self.training or self.p == 0 or self.tape.mode == "off":
            return super().forward(x)
        return x * self.tape.factors(x, self.p)


class SharedLinear(nn.Linear):
    """A linear map whose input is the same in both passes."""

    def __init__(self, linear: nn.Linear, tape: DropoutTape) -> None:
        bias = linear.bias is not None
        super().__init__(linear.in_features, linear.out_features, bias=bias, device="meta")
        # The same parameters, not copies: optimiser and checkpoint see one layer (hence "meta").
        self.weight, self.bias = linear.weight, linear.bias
        self.tape = tape

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map."""
        shape = (*x.shape[:-1], self.out_features)
        return self.tape.result(shape, lambda: super(SharedLinear, self).forward(x))


def share_dropout(network: nn.Module, tape: DropoutTape) -> None:
    """Replace all dropout layers of a network by layers that use a tape."""
    # A list, as the modules change meanwhile. A subclass of Dropout may mean something else.
    for name, module in list(network.named_modules()):
        if type(module) is nn.Dropout:
            shared = SharedDropout(module.p, tape).train(module.training)
            network.set_submodule(name, shared)
