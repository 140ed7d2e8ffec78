"""Length-sorted batches that shrink when memory runs out."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

log = logging.getLogger(__name__)
Item = TypeVar("Item")


class Batches:
    """Runs a function on batches of a size that memory allows.

    Args:
        size: items per batch at first; halved when memory runs out.

    Raises:
        ValueError: no items per batch.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            msg = f"got batch_size={size}, expected at least 1"
            raise ValueError(msg)
        self.size = size

    def run(
        self,
        function: Callable[[list[Item]], Tensor],
        items: Sequence[Item],
        length: Callable[[Item], int],
    ) -> Tensor:
        """`[n, ...]` results of n >= 1 items, in their order.

        Args:
            function: from b items to `[b, ...]`.
            items: those of like length go together.
            length: of an item.
        """
        order = sorted(range(len(items)), key=lambda row: length(items[row]))
        parts: list[Tensor] = []
        start = 0
        while start < len(order):
            rows = order[start : start + self.size]
            try:
                parts.append(function([items[row] for row in rows]).cpu())
            except torch.cuda.OutOfMemoryError:
                if self.size == 1:
                    raise
                torch.cuda.empty_cache()
                self.size //= 2
                log.warning("out of memory: %d texts per batch from here on", self.size)
                continue
            start += len(rows)
        return torch.cat(parts)[torch.tensor(order).argsort()]
