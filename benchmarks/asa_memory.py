"""How much a training step keeps for its backward pass, counted the same way on any device."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class GraphMemory:
    """Counts the bytes that graphs hold: each storage once, while anybody holds it.

    What is counted are the tensors that functions save for their backward pass, and what else is
    named by `holding`; not parameters, nor what is freed before the forward pass is over. A graph
    that is dropped after its backward pass is not counted any more, as in the steps of FreeLB.

    Args:
        parameters: whose storages are not counted.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._free = {one.untyped_storage().data_ptr() for one in parameters}
        self._holders: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}
        self.peak = 0
        """Bytes, the most that were held at a time."""

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return sum(self._sizes.values())

    def holding(self, tensor: Tensor) -> "_Held":
        """Count a tensor for as long as what is returned lives."""
        return _Held(self, tensor)

    def of(self, work: Callable[[], object]) -> int:
        """The most bytes that are held at a time in the course of some work."""
        self.peak = 0
        with torch.autograd.graph.saved_tensors_hooks(self.holding, _tensor):
            work()
        return self.peak

    def add(self, tensor: Tensor) -> int | None:
        """Hold a storage once more; its key, None where it is not counted."""
        storage = tensor.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if key in self._free or size == 0:
            return None
        self._holders[key] += 1
        if self._holders[key] == 1:
            self._sizes[key] = size
            self.peak = max(self.peak, self.held)
        return key

    def drop(self, key: int) -> None:
        """Hold a storage once less."""
        self._holders[key] -= 1
        if self._holders[key] == 0:
            del self._holders[key], self._sizes[key]


class _Held:
    """A tensor that is counted for as long as this lives."""

    __slots__ = ("_key", "_memory", "tensor")

    def __init__(self, memory: GraphMemory, tensor: Tensor) -> None:
        self.tensor, self._memory = tensor, memory
        self._key = memory.add(tensor)

    def __del__(self) -> None:
        if self._key is not None:
            self._memory.drop(self._key)


def _tensor(held: Any) -> Tensor:
    tensor: Tensor = held.tensor
    return tensor
