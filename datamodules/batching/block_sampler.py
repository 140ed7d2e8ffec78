"""The order of blocks of text: a shuffle that is computed on demand, not stored."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from datamodules.batching.sampler import BucketBatchSampler, Order
from text import hashed

_ROUNDS = 6
# Positions whose blocks are computed at once.
_AHEAD = 8192


def shuffled(positions: NDArray[np.int64], n: int, *keys: int) -> NDArray[np.int64]:
    """Return the values of a permutation of 0 ... n-1 at some positions, without storing it.

    A Feistel network (Luby & Rackoff 1988) over the next larger power of four, with `hashed` as its
    function; keys and n select the permutation.
    """
    half = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    rounds = hashed(np.arange(_ROUNDS, dtype=np.uint64), *keys, n, 0)
    values = positions.astype(np.uint64)
    # Cycle walking (Black & Rogaway 2002): repeat for values of n or more until all are below n.
    outside = np.arange(len(values))
    while len(outside):
        high_bits, low_bits = values[outside] >> half, values[outside] & low
        for key in rounds:
            high_bits, low_bits = low_bits, high_bits ^ (hashed(low_bits + key, 0) & low)
        values[outside] = (high_bits << half) | low_bits
        outside = outside[values[outside] >= n]
    return values.astype(np.int64)


class BlockSampler(BucketBatchSampler):
    """Lists of block indices, one list per batch, for blocks of one length.

    Batches, shares of processes and weights are those of `BucketBatchSampler`, but there is never a
    list of all blocks, so that memory does not grow with the corpus. Evaluation is shuffled as
    well, always in the same order.

    Args:
        blocks: number of blocks.
        batch_size: blocks per batch and process.
        order: order of the blocks, see `Order`.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(self, blocks: int, batch_size: int, order: Order) -> None:
        # A view of a single number: memory does not depend on the number of blocks.
        super().__init__(np.broadcast_to(np.int64(1), blocks), batch_size, order)

    def __iter__(self) -> Iterator[list[int]]:
        # The epoch is read now, not at the first `next`: see BucketBatchSampler.
        epoch, skip = self._skip
        return self._from(self.epoch, skip if self.epoch == epoch else 0)

    def batches(self) -> list[list[int]]:
        """Return all batches of the current epoch for this process."""
        return list(self._from(self.epoch, 0))

    def _from(self, epoch: int, skip: int) -> Iterator[list[int]]:
        n, size = len(self.lengths), self.batch_size * self.world
        keys = (self.seed, epoch + 1) if self.shuffle else (0, 0)
        full = n // size
        step = max(1, _AHEAD // size)
        for start in range(skip, full, step):
            stop = min(start + step, full)
            blocks = shuffled(np.arange(start * size, stop * size), n, *keys)
            yield from blocks.reshape(-1, size)[:, self.rank :: self.world].tolist()
        rest = self._share(shuffled(np.arange(full * size, n), n, *keys))
        # The rest is batch `full`: a run that has consumed it resumes after the epoch.
        if len(rest) and skip <= full:
            yield rest.tolist()
