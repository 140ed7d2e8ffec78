"""Batches that shrink when memory runs out."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

log = logging.getLogger(__name__)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Halving:
    """Halves the size of batches when memory runs out.

    Args:
        batch_size: items per batch at first.

    Raises:
        ValueError: no items per batch.
    """

    def __init__(self, batch_size: int) -> None:
        if batch_size < 1:
            msg = f"got {batch_size=}, expected at least 1"
            raise ValueError(msg)
        self.batch_size = batch_size

    def fitting(self, ask: Callable[[], Answer]) -> Answer:
        """Calls a function with smaller batches until one fits into memory."""
        while True:
            try:
                return ask()
            except torch.cuda.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
            torch.cuda.empty_cache()
            self.batch_size //= 2
            log.warning("out of memory: %d texts per batch from here on", self.batch_size)


class Batches(Halving):
    """Runs a function on length-sorted batches of a size that memory allows."""

    def run(
        self,
        function: Callable[[list[Item]], Tensor],
        items: Sequence[Item],
        length: Callable[[Item], int],
    ) -> Tensor:
        """Returns `[n, ...]` results of n >= 1 items, in their order.

        Args:
            function: from b items to `[b, ...]`.
            items: those of like length go together.
            length: of an item.
        """
        order = sorted(range(len(items)), key=lambda row: length(items[row]))
        parts: list[Tensor] = []
        done = 0

        def batch() -> list[int]:
            rows = order[done : done + self.batch_size]
            parts.append(function([items[row] for row in rows]).cpu())
            return rows

        while done < len(order):
            done += len(self.fitting(batch))
        return torch.cat(parts)[torch.tensor(order).argsort()]
