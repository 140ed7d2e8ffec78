"""Length-bucketed batches whose order is a pure function of the settings, on every machine."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from text import hashed

# Batches within which samples are sorted by length: more would give less padding, but similar
# batches in each epoch.
_WINDOW = 50


def permutation(n: int, *keys: int) -> NDArray[np.int64]:
    """Return a permutation of 0 ... n-1 that depends on `n` and the keys only."""
    # Sorted by hashes, which are all different: `hashed` is a bijection. First keys in use: 0 order
    # of samples, 1 of batches, 2 holdout, 3 limit_train, 4 upsample, 5 YelpStars.
    hashes = hashed(np.arange(n, dtype=np.uint64), *keys, n)
    return np.argsort(hashes, kind="stable").astype(np.int64)


class Order(NamedTuple):
    """An order of batches, its starting point, and the process.

    Attributes:
        shuffle: training (True) or evaluation.
        seed: seed of the order in training.
        epoch: the epoch to begin with.
        skip: batches of that epoch that a resumed run has completed.
        rank: this process.
        world: number of processes.
    """

    shuffle: bool = True
    seed: int = 0
    epoch: int = 0
    skip: int = 0
    rank: int = 0
    world: int = 1


class BucketBatchSampler(Sampler[list[int]]):
    """Lists of sample indices of similar length, one list per batch.

    The global batches (`batch_size * world` samples) are the same for every `world` that gives the
    same product; each process takes every `world`-th sample of each of them. So two processes with
    16 train on the batches of one process with 32.

    Training (`shuffle`): another order each epoch. Samples that fill no global batch come last, as
    one smaller batch, which processes may share unevenly: see `weight`.

    Evaluation: the order is the same each epoch, every sample comes exactly once over all
    processes (5 samples on 2 processes: 3 + 2), and processes may have one batch more than others.

    Each process must take part in every training step, and have at least one batch in evaluation. A
    process without a sample gets a sample of another process, with the weight 0.

    Args:
        lengths: tokens of each sample.
        batch_size: samples per batch and process.
        order: order of the batches, see `Order`.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self, lengths: Sequence[int] | NDArray[np.integer], batch_size: int, order: Order = Order()
    ) -> None:
        shuffle, seed, epoch, skip, rank, world = order
        if batch_size < 1 or world < 1 or not 0 <= rank < world or min(epoch, skip, seed) < 0:
            msg = (
                f"got {batch_size=}, {rank=}, {world=}, {seed=}, {epoch=}, {skip=}, expected a "
                "positive batch size, 0 <= rank < world, and nothing negative"
            )
            raise ValueError(msg)
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.batch_size = batch_size
        self.shuffle, self.seed, self.rank, self.world = shuffle, seed, rank, world
        self.epoch = epoch
        self._skip = (epoch, skip)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next iteration (Lightning calls it before each epoch)."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches of a full epoch for this process."""
        full, rest = divmod(len(self.lengths), self.batch_size * self.world)
        return full + (len(self._share(np.arange(rest))) > 0)

    def __iter__(self) -> Iterator[list[int]]:
        # Not a generator: Lightning creates the iterator before it calls `set_epoch`, and worker
        # processes would already have fetched batches of the previous order.
        epoch, skip = self._skip
        return iter(self.batches()[skip if self.epoch == epoch else 0 :])

    def weight(self, index: int) -> float:
        """Return the weight of batch `index` of this process in the mean over all processes.

        The mean over processes of weight * (mean over samples) is the mean over all samples: 1 for
        a full batch, world * mine / all in the last one; 0 for a sample of another process.
        """
        full, rest = divmod(len(self.lengths), self.batch_size * self.world)
        if index < full or rest == 0:
            return 1.0
        # Process r has the samples r, r + world, ... of the rest.
        mine = len(range(self.rank, rest, self.world))
        return self.world * mine / rest

    def _share(self, rest: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this process's share of the samples that fill no global batch."""
        mine = rest[self.rank :: self.world]
        # Needed in every training step, and if this is the only batch of an evaluation.
        needed = self.shuffle or len(rest) == len(self.lengths)
        return rest[:1] if needed and len(mine) == 0 else mine

    def batches(self) -> list[list[int]]:
        """Return all batches of the current epoch for this process."""
        n, size = len(self.lengths), self.batch_size * self.world
        keys = (self.seed, self.epoch + 1) if self.shuffle else (0, 0)
        order = permutation(n, 0, *keys) if self.shuffle else np.arange(n)
        count = n // size
        # In training the rest is removed before sorting: else it would be long texts each epoch.
        head = order[: count * size] if self.shuffle else order
        windows = np.arange(len(head)) // (size * _WINDOW)
        # Stable: within a window equal lengths keep their (shuffled) order.
        order[: len(head)] = head[np.lexsort((self.lengths[head], windows))]
        full = order[: count * size].reshape(count, size)
        # Shuffled in evaluation too: else `limit_test_batches` would select the shortest texts.
        full = full[permutation(count, 1, *keys)]
        mine: list[list[int]] = full[:, self.rank :: self.world].tolist()
        rest = self._share(order[count * size :])
        return [*mine, rest.tolist()] if len(rest) else mine
