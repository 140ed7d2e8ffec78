import hashlib
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.batching.block_sampler import BlockSampler, shuffled
from datamodules.batching.sampler import BucketBatchSampler, Order

blocks = st.integers(0, 130)
sizes = st.integers(1, 9)
worlds = st.integers(1, 5)


@pytest.mark.slow
@given(st.integers(1, 600), st.integers(0, 2**63), st.integers(0, 99))
def test_shuffled_is_a_permutation(n: int, seed: int, epoch: int) -> None:
    assert sorted(shuffled(np.arange(n), n, seed, epoch).tolist()) == list(range(n))


def test_shuffled_asks_for_any_part_at_a_time() -> None:
    full = shuffled(np.arange(1000), 1000, 3, 1)
    assert np.array_equal(shuffled(np.arange(500, 700), 1000, 3, 1), full[500:700])
    assert shuffled(np.arange(0), 0, 1).tolist() == []


@pytest.mark.slow
def test_shuffled_is_the_same_on_every_machine_and_looks_random() -> None:
    # Known answers: a change of this order would change every resumed run.
    assert shuffled(np.arange(10), 10, 0, 1).tolist() == [6, 1, 2, 4, 0, 9, 8, 7, 5, 3]
    digest = hashlib.sha256(shuffled(np.arange(100_000), 100_000, 7).astype("<i8").tobytes())
    assert digest.hexdigest() == "359f65ceeecfdd86ccaa7957943d48eaa50b6e875453d2957b43ccba746b1c3c"
    positions = np.array([shuffled(np.arange(1), 50, seed)[0] for seed in range(5000)])
    counts = np.bincount(positions, minlength=50)
    assert ((counts - 100) ** 2 / 100).sum() < 90  # chi square, 49 degrees: p is about 0.0003
    n = np.arange(10_000)
    assert abs(np.corrcoef(shuffled(n, 10_000, 1), shuffled(n, 10_000, 2))[0, 1]) < 0.05
    assert abs(np.corrcoef(shuffled(n, 10_000, 1), n)[0, 1]) < 0.05
    # Neighbours do not stay neighbours.
    assert (np.abs(np.diff(shuffled(n, 10_000, 1))) == 1).mean() < 0.002


def every_rank(n: int, size: int, order: Order) -> list[BlockSampler]:
    return [BlockSampler(n, size, order._replace(rank=rank)) for rank in range(order.world)]


@pytest.mark.slow
@given(n=blocks, size=sizes, world=worlds, epoch=st.integers(0, 3))
def test_global_batches_are_those_of_one_process(n: int, size: int, world: int, epoch: int) -> None:
    samplers = every_rank(n, size, Order(epoch=epoch, world=world))
    parts = [
        [batch if sampler.weight(i) > 0 else [] for i, batch in enumerate(sampler)]
        for sampler in samplers
    ]
    assert [len(part) for part in parts] == [len(sampler) for sampler in samplers]
    together = [sorted(chain(*batch)) for batch in zip(*parts, strict=True)]
    alone = [sorted(batch) for batch in BlockSampler(n, size * world, Order(epoch=epoch))]
    assert together == alone
    assert sorted(chain(*together)) == list(range(n))


@pytest.mark.slow
@given(n=blocks, size=sizes, world=worlds, shuffle=st.booleans())
def test_shares_and_weights_are_those_of_the_other_sampler(
    n: int, size: int, world: int, shuffle: bool
) -> None:
    for rank in range(world):
        ours = BlockSampler(n, size, Order(shuffle=shuffle, rank=rank, world=world))
        theirs = BucketBatchSampler([1] * n, size, Order(shuffle=shuffle, rank=rank, world=world))
        assert len(ours) == len(theirs)
        assert [len(batch) for batch in ours] == [len(batch) for batch in theirs]
        indices = range(len(ours))
        assert [ours.weight(i) for i in indices] == [theirs.weight(i) for i in indices]


@pytest.mark.slow
@given(n=blocks, size=sizes, world=worlds, skip=st.integers(0, 20))
def test_a_resumed_epoch_goes_on(n: int, size: int, world: int, skip: int) -> None:
    for rank in range(world):
        order = Order(seed=1, epoch=2, rank=rank, world=world)
        full = BlockSampler(n, size, order)
        resumed = BlockSampler(n, size, order._replace(skip=skip))
        assert list(resumed) == list(full)[skip:]
        for sampler in (full, resumed):
            sampler.set_epoch(3)
        assert list(resumed) == list(full) == full.batches()


def test_the_epoch_is_that_of_the_call_of_iter() -> None:
    sampler = BlockSampler(50, 4, Order())
    expected = list(sampler)
    begun = iter(sampler)
    sampler.set_epoch(1)
    assert list(begun) == expected != list(sampler)


def test_evaluation_has_one_order_from_all_over_the_corpus() -> None:
    samplers = [
        BlockSampler(1000, 10, Order(shuffle=False, seed=s, epoch=e)) for s, e in ((0, 0), (1, 2))
    ]
    first, second = map(list, samplers)
    assert first == second
    assert max(first[0]) > 500


def test_large_corpora_cost_nothing_in_advance() -> None:
    sampler = BlockSampler(10**12, 32, Order())
    assert len(next(iter(sampler))) == 32
    assert len(sampler) == -(-(10**12) // 32)


def test_settings_out_of_range() -> None:
    with pytest.raises(ValueError, match="positive batch size"):
        BlockSampler(5, 0, Order())
