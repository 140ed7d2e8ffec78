import hashlib
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.batching.sampler import BucketBatchSampler, Order, permutation

lengths = st.lists(st.integers(1, 40), min_size=0, max_size=120)
sizes = st.integers(1, 9)
worlds = st.integers(1, 5)


def ranks(
    values: list[int], size: int, world: int, *, shuffle: bool, seed: int = 0, epoch: int = 0
) -> list[list[list[int]]]:
    """The batches of each process."""
    samplers = [
        BucketBatchSampler(
            values, size, Order(seed=seed, epoch=epoch, rank=rank, world=world, shuffle=shuffle)
        )
        for rank in range(world)
    ]
    batches = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(mine) for mine in batches]
    return batches


@given(st.integers(0, 300), st.integers(0, 2**63), st.integers(0, 99))
def test_permutation_is_one(n: int, seed: int, epoch: int) -> None:
    assert sorted(permutation(n, seed, epoch).tolist()) == list(range(n))


@pytest.mark.long
def test_permutation_is_the_same_on_every_machine_and_looks_random() -> None:
    # Known answers: a change of this order would change every resumed run.
    assert permutation(10, 0, 1).tolist() == [2, 8, 4, 1, 6, 9, 3, 5, 7, 0]
    digest = hashlib.sha256(permutation(100_000, 7).astype("<i8").tobytes()).hexdigest()
    assert digest == "cc03ba643d75139dcfbf21621300236db3ca3331078a72310539e4c9308a69c1"
    positions = np.array([permutation(50, seed)[0] for seed in range(5000)])
    counts = np.bincount(positions, minlength=50)
    assert ((counts - 100) ** 2 / 100).sum() < 90  # chi square, 49 degrees: p is about 0.0003
    assert abs(np.corrcoef(permutation(10_000, 1), permutation(10_000, 2))[0, 1]) < 0.05


@pytest.mark.long
@given(values=lengths, size=sizes, seed=st.integers(0, 5), epoch=st.integers(0, 3))
def test_one_process_trains_on_every_sample_once(
    values: list[int], size: int, seed: int, epoch: int
) -> None:
    (batches,) = ranks(values, size, 1, shuffle=True, seed=seed, epoch=epoch)
    assert sorted(chain(*batches)) == list(range(len(values)))
    assert all(len(batch) == size for batch in batches[:-1])


def counted(samplers: list[BucketBatchSampler]) -> list[list[list[int]]]:
    """The batches of each process, without the stand-ins."""
    return [
        [batch for index, batch in enumerate(sampler) if sampler.weight(index) > 0]
        for sampler in samplers
    ]


def every_rank(values: list[int], size: int, world: int, **more: Any) -> list[BucketBatchSampler]:
    return [
        BucketBatchSampler(values, size, Order(rank=rank, world=world, **more))
        for rank in range(world)
    ]


@pytest.mark.long
@given(values=lengths, size=sizes, world=worlds)
def test_evaluation_sees_every_sample_once_over_all_processes(
    values: list[int], size: int, world: int
) -> None:
    samplers = every_rank(values, size, world, shuffle=False)
    assert sorted(chain(*chain(*counted(samplers)))) == list(range(len(values)))
    batches = ranks(values, size, world, shuffle=False)
    assert all(1 <= len(batch) <= size for batch in chain(*batches))
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    # Lightning leaves out the end of an evaluation, where the others wait, if there is no batch.
    assert not values or min(map(len, batches)) > 0


@pytest.mark.long
@given(values=lengths, size=sizes, world=worlds, epoch=st.integers(0, 3))
def test_processes_share_the_batches_of_one_process(
    values: list[int], size: int, world: int, epoch: int
) -> None:
    samplers = every_rank(values, size, world, epoch=epoch)
    (alone,) = ranks(values, size * world, 1, shuffle=True, epoch=epoch)
    # As many steps on each process, or the gradients of the last would never be averaged.
    assert {len(sampler) for sampler in samplers} == {len(alone)}
    for index, batch in enumerate(alone):
        parts = [list(sampler)[index] for sampler in samplers]
        weights = [sampler.weight(index) for sampler in samplers]
        shares = [part for part, weight in zip(parts, weights, strict=True) if weight > 0]
        assert sorted(chain(*shares)) == sorted(batch)
        # The weighted mean of the means is the mean.
        means = [np.mean([values[i] for i in part]) for part in parts]
        assert np.mean(np.multiply(weights, means)) == pytest.approx(
            np.mean([values[i] for i in batch])
        )


def test_five_samples_on_two_processes() -> None:
    assert [len(mine[0]) for mine in ranks([3] * 5, 128, 2, shuffle=False)] == [3, 2]


@pytest.mark.parametrize("shuffle", [True, False])
def test_three_samples_on_four_processes(shuffle: bool) -> None:
    samplers = every_rank([3] * 3, 128, 4, shuffle=shuffle)
    assert [len(sampler) for sampler in samplers] == [1, 1, 1, 1]
    assert [sampler.weight(0) for sampler in samplers] == [4 / 3, 4 / 3, 4 / 3, 0]


@pytest.mark.long
@given(values=lengths, size=sizes, skip=st.integers(0, 8), epoch=st.integers(0, 3))
def test_skip_leaves_out_what_a_resumed_run_has_had(
    values: list[int], size: int, skip: int, epoch: int
) -> None:
    full = BucketBatchSampler(values, size, Order(seed=1, epoch=epoch))
    resumed = BucketBatchSampler(values, size, Order(seed=1, epoch=epoch, skip=skip))
    assert list(resumed) == list(full)[skip:]
    assert len(resumed) == len(full)
    for sampler in (full, resumed):
        sampler.set_epoch(epoch + 1)
    assert list(resumed) == list(full)


def test_order_depends_on_seed_and_epoch_in_training_only() -> None:
    values = list(range(1, 200))
    (first,) = ranks(values, 8, 1, shuffle=True)
    assert ranks(values, 8, 1, shuffle=True) == [first]
    assert ranks(values, 8, 1, shuffle=True, epoch=1) != [first]
    assert ranks(values, 8, 1, shuffle=True, seed=1) != [first]
    assert ranks(values, 8, 1, shuffle=False) == ranks(values, 8, 1, shuffle=False, seed=1, epoch=1)


def test_an_iterator_keeps_the_epoch_it_was_made_in() -> None:
    # Lightning makes the iterator of the first epoch before it calls `set_epoch`.
    sampler = BucketBatchSampler(list(range(1, 100)), 8)
    expected = list(sampler)
    iterator = iter(sampler)
    sampler.set_epoch(1)
    assert list(iterator) == expected


def padding(values: np.ndarray, batches: list[list[int]]) -> float:
    padded = sum(len(batch) * int(values[batch].max()) for batch in batches)
    return 1 - int(values.sum()) / padded


def test_padding_is_small_on_lengths_like_those_of_sst2() -> None:
    # Phrases: half of them under 8 tokens, a long tail up to 50.
    generator = np.random.Generator(np.random.PCG64(0))
    values = np.clip(generator.geometric(0.11, size=20_000), 1, 50)
    for epoch in range(3):
        (batches,) = ranks(values.tolist(), 32, 1, shuffle=True, epoch=epoch)
        assert padding(values, batches) < 0.08
    (batches,) = ranks(values.tolist(), 128, 1, shuffle=False)
    assert padding(values, batches) < 0.08
    unsorted = [list(chunk) for chunk in zip_longest(*[iter(range(20_000))] * 32)]
    assert padding(values, unsorted) > 0.5


def test_any_evaluation_batches_are_a_mixture() -> None:
    # `limit_test_batches` takes the first ones: not the shortest or the longest texts.
    values = np.arange(1, 4001)
    (batches,) = ranks(values.tolist(), 20, 1, shuffle=False)
    assert abs(values[list(chain(*batches[:50]))].mean() - 2000) < 400
    assert abs(values[list(chain(*batches[-50:]))].mean() - 2000) < 400


@pytest.mark.parametrize(
    "change",
    [{"batch_size": 0}, {"world": 0}, {"rank": 2, "world": 2}, {"epoch": -1}, {"skip": -1}],
)
def test_settings_out_of_range(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a positive batch size"):
        BucketBatchSampler([1, 2], change.pop("batch_size", 2), Order(**change))
