"""Blocks of text that are packed while they are trained on, for corpora that fit on no disk."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from datamodules.batching.block_sampler import BlockSampler
from datamodules.batching.sampler import Order, permutation
from datamodules.packing.blocks import Blocks
from datamodules.packing.packed_text import held_out, to_batch
from text import Batch, hashed
from text.bounded_files import DataError

_CHOICES = 4096
"""Places in the buffer that are drawn at once."""
_AHEAD = 256
"""Batches that a thread may be ahead: more than one chunk of packing gives."""

T = TypeVar("T")


class Rows(NamedTuple):
    """The blocks of one batch.

    Attributes:
        ids: `[B, N]` token ids.
        tokens: `[B]` how many of them are real.
        places: `[B]` which blocks of the corpus these are.
    """

    ids: NDArray[np.int32]
    tokens: NDArray[np.int32]
    places: NDArray[np.int64]


class Arrived(Dataset[Batch]):
    """Makes batches of the rows of a `BlockStream`."""

    def __getitem__(self, index: Rows) -> Batch:
        """The batch of these blocks."""
        return to_batch(*index)


class BlockStream(BlockSampler):
    """Batches of blocks as they come, shuffled within a buffer.

    It takes the place of a sampler, and hands over blocks instead of their places: Lightning tells
    it the epoch, and it knows the weights of unequal shares, as all our samplers.

    All processes read and pack the whole stream, because where a block begins depends on all text
    before it; each keeps its share of every batch. So the global batches are the same for every
    number of processes. A run that is resumed reads again what it has had.

    Args:
        blocks: begins the stream of all blocks.
        batch_size: blocks per batch and process.
        order: order of the blocks, see `Order`; evaluation is on the blocks that are held out.
        buffer: blocks among which the next one is drawn in training; 1 keeps their order.
        every: one block in so many is held out; 0 for none.
        ahead: True if a thread reads and packs while the model computes.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        blocks: Callable[[], Iterator[Blocks]],
        batch_size: int,
        order: Order,
        *,
        buffer: int,
        every: int,
        ahead: bool,
    ) -> None:
        # How many blocks there are is known only behind the last one.
        super().__init__(0, batch_size, order)
        self._blocks = blocks
        self._buffer = buffer
        self._every = every
        self._ahead = ahead

    def __len__(self) -> int:
        msg = "a stream has no length"
        raise TypeError(msg)

    def __iter__(self) -> Iterator[Rows]:  # type: ignore[override] # blocks, not their places
        epoch, skip = self._skip
        rows = self._rows(self.epoch, skip if self.epoch == epoch else 0)
        return ahead(rows, _AHEAD) if self._ahead else rows

    def _rows(self, epoch: int, skip: int) -> Iterator[Rows]:
        size = self.batch_size * self.world
        part = _part(self._blocks(), self._every, held=not self.shuffle)
        order = _shuffled(part, self._buffer, self.seed, epoch) if self.shuffle else part
        batch: list[Rows] = []
        n = 0
        for row in order:
            batch.append(row)
            n += 1
            if len(batch) == size:
                if n > skip * size:
                    yield _joined(batch[self.rank :: self.world])
                batch = []
        if n == 0:
            raise no_block(self.shuffle)
        # From now on, `weight` knows the share of the last batch.
        self.lengths = np.broadcast_to(np.int64(1), n)
        mine = self._share(np.arange(len(batch)))
        if len(mine) and n > skip * size:
            yield _joined([batch[i] for i in mine])


def no_block(training: bool) -> DataError:
    """The error for a corpus that is too small: its only block is held out, or there is none."""
    kind = "train" if training else "validate"
    return DataError(f"got no block of text to {kind} on, expected more text, or shorter blocks")


def _joined(rows: list[Rows]) -> Rows:
    return Rows(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


def _part(stream: Iterable[Blocks], every: int, *, held: bool) -> Iterator[Rows]:
    """The blocks that are held out, or all others, one at a time, with their places."""
    first = 0
    for blocks in stream:
        places = np.arange(first, first + len(blocks.ids))
        first += len(blocks.ids)
        for i in np.flatnonzero(held_out(places, every) == held).tolist():
            # Copies: a view of one row would keep all of them.
            ids, tokens = (part[i : i + 1].copy() for part in blocks)
            yield Rows(ids, tokens, places[i : i + 1].copy())


def _shuffled(rows: Iterable[Rows], buffer: int, seed: int, epoch: int) -> Iterator[Rows]:
    """Yield blocks from a buffer in which a new block replaces the one that is drawn."""
    held: list[Rows] = []
    choices: list[int] = []
    drawn = 0
    for row in rows:
        if len(held) < buffer:
            held.append(row)
            continue
        if not choices:
            numbers = np.arange(drawn, drawn + _CHOICES, dtype=np.uint64)
            choices = (hashed(numbers, seed, epoch + 1, 0) % np.uint64(buffer)).tolist()[::-1]
            drawn += _CHOICES
        place = choices.pop()
        yield held[place]
        held[place] = row
    for i in permutation(len(held), seed, epoch + 1):
        yield held[i]


def ahead(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield the same items, made by a thread that runs ahead.

    Args:
        items: made in the thread; what it raises is raised here.
        depth: how many may wait.
    """
    waiting: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    over = threading.Event()

    def put(item: T | None, error: BaseException | None) -> bool:
        while not over.is_set():
            try:
                waiting.put((item, error), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item, None):
                    return
            put(None, StopIteration())
        except BaseException as error:  # handed over, and raised where it is awaited
            put(None, error)

    thread = threading.Thread(target=make, name="steadfast-packing", daemon=True)
    thread.start()
    try:
        while True:
            item, error = waiting.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc] # an item wherever there is no error
    finally:
        over.set()
        thread.join(timeout=5)  # if it waits for the network, it is left behind
