"""Batches that shrink when memory runs out."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from text import length_batches

log = logging.getLogger(__name__)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def pad_rows(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return token ids `[B, N]`, padded to the longest row, and their mask, True at the tokens."""
    length = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad_id] * (length - len(row))] for row in rows], device=device)
    sizes = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(length, device=device) < sizes.unsqueeze(1)


class Halving:
    """Halves the size of batches, `batch_size` items at first, when memory runs out.

    Raises:
        ValueError: no items per batch.
    """

    def __init__(self, batch_size: int) -> None:
        if batch_size < 1:
            msg = f"got {batch_size=}, expected at least 1"
            raise ValueError(msg)
        self.batch_size = batch_size

    def fitting(self, ask: Callable[[], Answer]) -> Answer:
        """Call a function with smaller batches until one fits into memory."""
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
    """Runs a function on batches of like length, of a size that memory allows.

    `device` is the type of the device that the function computes on.
    """

    def __init__(self, batch_size: int, device: str = "cpu") -> None:
        super().__init__(batch_size)
        self.device = device

    def run(
        self,
        function: Callable[[list[Item]], Tensor],
        items: Sequence[Item],
        length: Callable[[Item], int],
    ) -> Tensor:
        """Return `[n, ...]` results of n >= 1 items, in their order.

        `function` maps b items to `[b, ...]`; items of like `length` go together.
        """
        order: list[int] = []
        parts: list[Tensor] = []
        for rows, part in self._parts(lambda some: function(some).cpu(), items, length):
            order += rows
            parts.append(part)
        # Back to the order of the items.
        return torch.cat(parts)[torch.tensor(order).argsort()]

    def each(
        self,
        function: Callable[[list[Item]], Sequence[Answer]],
        items: Sequence[Item],
        length: Callable[[Item], int],
    ) -> list[Answer]:
        """Return an answer to each item, in their order; see `run`."""
        answers: dict[int, Answer] = {}
        for rows, part in self._parts(function, items, length):
            answers.update(zip(rows, part, strict=True))
        return [answers[row] for row in range(len(items))]

    def _parts(
        self,
        function: Callable[[list[Item]], Answer],
        items: Sequence[Item],
        length: Callable[[Item], int],
    ) -> Iterator[tuple[list[int], Answer]]:
        lengths = [length(item) for item in items]
        waiting = length_batches(lengths, self.batch_size, device=self.device)[::-1]

        def part() -> tuple[list[int], Answer]:
            # All that is left is split anew.
            if len(waiting[-1]) > self.batch_size:  # memory ran out
                rest = [row for rows in waiting for row in rows]
                smaller = length_batches(
                    [lengths[row] for row in rest], self.batch_size, device=self.device
                )
                waiting[:] = [[rest[i] for i in rows] for rows in smaller[::-1]]
            return waiting[-1], function([items[row] for row in waiting[-1]])

        while waiting:
            yield self.fitting(part)
            waiting.pop()
