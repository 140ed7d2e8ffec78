"""Length-bucketed batches whose order is a pure function of the settings, on every machine."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from text import hashed

_WINDOW = 50
"""Batches among which samples are sorted by length: enough to make padding small, few enough to
keep the composition of batches changing from epoch to epoch."""


def permutation(n: int, *keys: int) -> NDArray[np.int64]:
    """Return a permutation of 0 ... n-1 that depends on nothing but `n` and the keys.

    Indices are sorted by their hashes, of which no two are equal.
    """
    hashes = hashed(np.arange(n, dtype=np.uint64), *keys, n)
    return np.argsort(hashes, kind="stable").astype(np.int64)


class Order(NamedTuple):
    """An order of batches, the place to begin, and the process.

    Attributes:
        shuffle: training (True) or evaluation.
        seed: seed of the order in training.
        epoch: the epoch to begin with.
        skip: batches of that epoch left out because a run that is resumed has had them.
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
    one smaller batch, which may be shared out unevenly: `weight` says what each share counts.

    Evaluation: the order is the same each epoch, every sample comes exactly once over all
    processes (5 samples on 2 processes: 3 + 2), and processes may have one batch more than others.

    Each process must take part in every training step, and have at least one batch in evaluation.
    One for which no sample is left gets a stand-in, a sample of another process, of weight 0.

    Args:
        lengths: tokens of each sample.
        batch_size: samples per batch and process.
        order: order of the batches, see `Order`.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        lengths: Sequence[int] | NDArray[np.integer],
        batch_size: int,
        order: Order = Order(),
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
        """Batches of a whole epoch for this process, whatever is skipped of the first one."""
        whole, rest = divmod(len(self.lengths), self.batch_size * self.world)
        return whole + (len(self._share(np.arange(rest))) > 0)

    def __iter__(self) -> Iterator[list[int]]:
        # The list is made here, not at the first `next`: Lightning creates the iterator before it
        # calls `set_epoch`, and workers would have fetched from another order than a generator.
        epoch, skip = self._skip
        return iter(self.batches()[skip if self.epoch == epoch else 0 :])

    def weight(self, index: int) -> float:
        """Return the weight of batch `index` of this process in the mean over all processes.

        It is 1 where all have as many samples, and world * mine / all of them in the last batch:
        the mean over processes of weight * (mean over samples) is then the mean over all samples.

        Returns:
            The weight; 0 for a stand-in, which must not count in any way.
        """
        whole, rest = divmod(len(self.lengths), self.batch_size * self.world)
        if index < whole or rest == 0:
            return 1.0
        mine = len(range(self.rank, rest, self.world))
        return self.world * mine / rest

    def _share(self, rest: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this process's share of the samples that fill no global batch."""
        mine = rest[self.rank :: self.world]
        needed = self.shuffle or len(rest) == len(self.lengths)
        return rest[:1] if needed and len(mine) == 0 else mine

    def batches(self) -> list[list[int]]:
        """All batches of the current epoch for this process."""
        n, size = len(self.lengths), self.batch_size * self.world
        keys = (self.seed, self.epoch + 1) if self.shuffle else (0, 0)
        order = permutation(n, 0, *keys) if self.shuffle else np.arange(n)
        whole = n // size
        # In training the rest is set aside unsorted: else it would be long texts in each epoch.
        head = order[: whole * size] if self.shuffle else order
        windows = np.arange(len(head)) // (size * _WINDOW)
        # Stable: within a window equal lengths keep their (shuffled) order.
        order[: len(head)] = head[np.lexsort((self.lengths[head], windows))]
        full = order[: whole * size].reshape(whole, size)
        # Shuffled in evaluation too: else `limit_test_batches` would pick the shortest texts.
        full = full[permutation(whole, 1, *keys)]
        mine: list[list[int]] = full[:, self.rank :: self.world].tolist()
        rest = self._share(order[whole * size :])
        return [*mine, rest.tolist()] if len(rest) else mine
