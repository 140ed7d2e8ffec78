"""The order of blocks of text: a shuffle that is computed, not kept."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from datamodules.batching.sampler import BucketBatchSampler, Order
from text import hashed

_ROUNDS = 6
_AHEAD = 8192
"""Places whose blocks are computed at once."""


def shuffled(places: NDArray[np.int64], n: int, *keys: int) -> NDArray[np.int64]:
    """Return some places of a permutation of 0 ... n-1 that is never made as a whole.

    A Feistel network (Luby & Rackoff 1988) over the next larger power of four, with `hashed`
    as its function; a value of n or more is put through again until it is smaller (Black & Rogaway
    2002).

    Args:
        places: each from 0 to n-1.
        n: how many there are.
        keys: the permutation depends on them, and on `n`.
    """
    half = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    rounds = hashed(np.arange(_ROUNDS, dtype=np.uint64), *keys, n, 0)
    values = places.astype(np.uint64)
    outside = np.arange(len(values))
    while len(outside):
        left, right = values[outside] >> half, values[outside] & low
        for key in rounds:
            left, right = right, left ^ (hashed(right + key, 0) & low)
        values[outside] = (left << half) | right
        outside = outside[values[outside] >= n]
    return values.astype(np.int64)


class BlockSampler(BucketBatchSampler):
    """Lists of block indices, one list per batch, for blocks that are all of one length.

    Batches, shares of processes and weights are those of `BucketBatchSampler`; but no list of all
    blocks is ever made, so that memory does not grow with the corpus. Evaluation takes blocks from
    all over the corpus, too, in an order that is always the same.

    Args:
        blocks: number of blocks.
        batch_size: blocks per batch and process.
        order: order of the blocks, see `Order`.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(self, blocks: int, batch_size: int, order: Order) -> None:
        # A view of a single number, however many there are.
        super().__init__(np.broadcast_to(np.int64(1), blocks), batch_size, order)

    def __iter__(self) -> Iterator[list[int]]:
        # The epoch is read now, not at the first `next`: see BucketBatchSampler.
        epoch, skip = self._skip
        return self._from(self.epoch, skip if self.epoch == epoch else 0)

    def batches(self) -> list[list[int]]:
        """All batches of the current epoch for this process."""
        return list(self._from(self.epoch, 0))

    def _from(self, epoch: int, skip: int) -> Iterator[list[int]]:
        n, size = len(self.lengths), self.batch_size * self.world
        keys = (self.seed, epoch + 1) if self.shuffle else (0, 0)
        whole = n // size
        step = max(1, _AHEAD // size)
        for start in range(skip, whole, step):
            stop = min(start + step, whole)
            blocks = shuffled(np.arange(start * size, stop * size), n, *keys)
            yield from blocks.reshape(-1, size)[:, self.rank :: self.world].tolist()
        rest = self._share(shuffled(np.arange(whole * size, n), n, *keys))
        if len(rest) and skip <= whole:
            yield rest.tolist()
