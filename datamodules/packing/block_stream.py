"""Blocks of text that are packed during training, for corpora larger than the disk."""

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

# Positions in the buffer that are drawn at once.
_CHOICES = 4096
# Batches that a thread may be ahead: more than one chunk of packing yields.
_AHEAD = 256

T = TypeVar("T")


class BlockRows(NamedTuple):
    """The blocks of one batch: `[B, N]` token ids, `[B]` numbers of real ones, `[B]` positions."""

    ids: NDArray[np.int32]
    tokens: NDArray[np.int32]
    positions: NDArray[np.int64]


class StreamedBlocks(Dataset[Batch]):
    """Makes batches of the rows of a `BlockStream`."""

    def __getitem__(self, index: BlockRows) -> Batch:
        """Return the batch of these blocks."""
        return to_batch(*index)


class BlockStream(BlockSampler):
    """Batches of streamed blocks, shuffled within a buffer.

    It is used as a sampler, but yields blocks instead of their positions: Lightning sets its epoch,
    and it has the weights of unequal shares, as all our samplers.

    All processes read and pack the full stream, because the start of a block depends on all text
    before it; each keeps its share of every batch. So the global batches are the same for every
    number of processes. A resumed run reads completed batches again.

    Args:
        blocks: begins the stream of all blocks.
        batch_size: blocks per batch and process.
        order: order of the blocks, see `Order`; evaluation uses the blocks that are held out.
        buffer: blocks among which the next one is drawn in training; 1 keeps their order.
        interval: one block in `interval` is held out; 0 for none.
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
        interval: int,
        ahead: bool,
    ) -> None:
        # The number of blocks is known only after the last one.
        super().__init__(0, batch_size, order)
        self._blocks = blocks
        self._buffer = buffer
        self._interval = interval
        self._ahead = ahead

    def __len__(self) -> int:
        msg = "a stream has no length"
        raise TypeError(msg)

    def __iter__(self) -> Iterator[BlockRows]:  # type: ignore[override] # blocks, not positions
        epoch, skip = self._skip
        rows = self._rows(self.epoch, skip if self.epoch == epoch else 0)
        return ahead(rows, _AHEAD) if self._ahead else rows

    def _rows(self, epoch: int, skip: int) -> Iterator[BlockRows]:
        size = self.batch_size * self.world
        part = _select(self._blocks(), self._interval, held=not self.shuffle)
        order = _shuffle(part, self._buffer, self.seed, epoch) if self.shuffle else part
        batch: list[BlockRows] = []
        n = 0
        for row in order:
            batch.append(row)
            n += 1
            if len(batch) == size:
                # A resumed run reads completed batches again, but does not yield them.
                if n > skip * size:
                    yield _join(batch[self.rank :: self.world])
                batch = []
        if n == 0:
            raise no_block(self.shuffle)
        # From now on, `weight` can compute the share of the last batch.
        self.lengths = np.broadcast_to(np.int64(1), n)
        mine = self._share(np.arange(len(batch)))
        if len(mine) and n > skip * size:
            yield _join([batch[i] for i in mine])


def no_block(training: bool) -> DataError:
    """Return the error for a corpus without a block for training or for validation."""
    kind = "train" if training else "validate"
    return DataError(f"got no block of text to {kind} on, expected more text, or shorter blocks")


def _join(rows: list[BlockRows]) -> BlockRows:
    return BlockRows(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


def _select(stream: Iterable[Blocks], interval: int, *, held: bool) -> Iterator[BlockRows]:
    """Yield the blocks that are held out, or all others, one at a time, with their positions."""
    first = 0
    for blocks in stream:
        positions = np.arange(first, first + len(blocks.ids))
        first += len(blocks.ids)
        for i in np.flatnonzero(held_out(positions, interval) == held).tolist():
            # Copies: a view of one row would keep the memory of all of them.
            ids, tokens = (part[i : i + 1].copy() for part in blocks)
            yield BlockRows(ids, tokens, positions[i : i + 1].copy())


def _shuffle(rows: Iterable[BlockRows], buffer: int, seed: int, epoch: int) -> Iterator[BlockRows]:
    """Yield blocks from a buffer in which each new block replaces a random one."""
    held: list[BlockRows] = []
    choices: list[int] = []
    drawn = 0
    for row in rows:
        if len(held) < buffer:
            held.append(row)
            continue
        if not choices:
            # Hashes of their numbers, not random states: a resumed run repeats them.
            numbers = np.arange(drawn, drawn + _CHOICES, dtype=np.uint64)
            choices = (hashed(numbers, seed, epoch + 1, 0) % np.uint64(buffer)).tolist()[::-1]
            drawn += _CHOICES
        index = choices.pop()
        yield held[index]
        held[index] = row
    # The end of the stream: the rest of the buffer in random order.
    for i in permutation(len(held), seed, epoch + 1):
        yield held[i]


def ahead(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield the same items, at most `depth` of them computed ahead by a thread.

    Exceptions of the thread are raised here.
    """
    waiting: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    over = threading.Event()

    def put(item: T | None, error: BaseException | None) -> bool:
        while not over.is_set():
            try:
                # With a time limit: a consumer that is gone would leave the thread waiting for
                # ever.
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
        except BaseException as error:  # raised again in the consumer's thread
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
        thread.join(timeout=5)  # a thread that waits for the network is abandoned
