"""Memory that a training step keeps for its backward pass, counted alike on any device."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable

import torch
from torch import Tensor


class GraphMemory:
    """Counts the bytes that graphs hold: each storage once, while it is referenced.

    It counts the tensors that functions save for their backward pass, and those of `holding`; not
    parameters, nor tensors that are freed before the end of the forward pass. A graph that is
    dropped after its backward pass is not counted any more, as in the steps of FreeLB.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._free = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._holders: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}
        self.peak = 0
        """Bytes, the most that were held at a time."""

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return sum(self._sizes.values())

    def holding(self, tensor: Tensor) -> "_Held":
        """Count a tensor for the life of the returned object."""
        held = _Held(tensor)
        storage = tensor.untyped_storage()
        # By storage: views share one, and count once.
        key, size = storage.data_ptr(), storage.nbytes()
        if key not in self._free and size:
            self._holders[key] += 1
            self._sizes[key] = size
            self.peak = max(self.peak, self.held)
            # Autograd drops the object when it frees the saved tensor.
            weakref.finalize(held, self._drop, key)
        return held

    def of(self, work: Callable[[], object]) -> int:
        """Return the most bytes that are held at a time in the course of some work."""
        self.peak = 0
        with torch.autograd.graph.saved_tensors_hooks(self.holding, lambda held: held.tensor):
            work()
        return self.peak

    def _drop(self, key: int) -> None:
        self._holders[key] -= 1
        if self._holders[key] == 0:
            del self._holders[key], self._sizes[key]


class _Held:
    """A tensor that is counted for as long as this lives."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
