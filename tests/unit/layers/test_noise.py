"""Noise: a function of seed and place, and distributed as it says."""

from statistics import NormalDist

import pytest
import torch

from layers.noise import logistic_pairs, normal, sample_seeds, uniform


def seeds(count: int, epoch: int = 0) -> torch.Tensor:
    return sample_seeds(torch.arange(count), seed=7, epoch=epoch)


def test_noise_does_not_depend_on_batch_or_padding() -> None:
    full = uniform(seeds(5), torch.zeros(5, 9, 4))
    for i in range(5):
        assert torch.equal(uniform(seeds(5)[i : i + 1], torch.zeros(1, 6, 4))[0], full[i, :6])


def test_seeds_draws_and_epochs_differ() -> None:
    x = torch.zeros(3, 8, 16)
    first = uniform(seeds(3), x)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, uniform(seeds(3), x, draw=1))
    assert not torch.equal(first, uniform(seeds(3, epoch=1), x))
    assert len(set(seeds(10_000).tolist())) == 10_000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distribution(dtype: torch.dtype) -> None:
    x = torch.zeros(64, 32, 64, dtype=dtype)
    flat = uniform(seeds(64), x)
    assert flat.dtype == dtype
    assert -1 < flat.min() < -0.999
    assert 0.999 < flat.max() < 1
    # 131,072 numbers: means within five standard errors.
    assert flat.mean().abs() < 5 / (3 * flat.numel()) ** 0.5
    assert abs(flat.var().item() - 1 / 3) < 0.01
    counts = torch.histc(flat.float(), bins=20, min=-1, max=1) / flat.numel()
    assert (counts - 0.05).abs().max() < 0.005
    bell = normal(seeds(64), x)
    assert torch.isfinite(bell).all()
    assert bell.mean().abs() < 5 / bell.numel() ** 0.5
    assert bell.std().item() == pytest.approx(1, abs=0.01)
    assert (bell.abs() < 1).double().mean().item() == pytest.approx(0.6827, abs=0.01)
    assert bell.pow(4).mean().item() == pytest.approx(3, abs=0.1)
    # Neighbours in place and in seed have nothing to do with each other.
    for a, b in ((flat[:, 1:], flat[:, :-1]), (flat[1:], flat[:-1])):
        assert (a * b).mean().abs() < 0.01


def test_the_greatest_number_is_finite() -> None:
    """All 24 bits are set at this place: what rounds to 1 has an infinite quantile."""
    keys = sample_seeds(torch.tensor([97]), seed=0, epoch=0)
    x = torch.zeros(1, 128, 384)
    bell, flat = normal(keys, x), uniform(keys, x)
    assert bell.argmax() == flat.argmax() == 125 * 384 + 85
    assert flat.max() == 1 - 2**-23
    assert torch.isfinite(bell).all()
    assert bell.max().item() == pytest.approx(NormalDist().inv_cdf(1 - 2**-24), rel=1e-3)


def splitmix(x: int) -> int:
    """The finaliser, with the whole numbers of Python."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def test_numbers_are_those_of_the_written_generator() -> None:
    golden = 0x9E3779B97F4A7C15
    keys = seeds(2)
    before = keys.clone()
    flat = uniform(keys, torch.zeros(2, 3, 4, dtype=torch.float64), draw=2)
    pairs = logistic_pairs(keys, 3, heads=2, draw=2).double().sigmoid()
    assert torch.equal(keys, before)
    for b in range(2):
        start = splitmix((int(keys[b]) + golden * 3) % 2**64)
        for number in range(12):
            high = splitmix((start + golden * (number + 1)) % 2**64) >> 40
            expected = 2 * ((high + 0.5) / 2**24) - 1
            assert flat[b].flatten()[number].item() == pytest.approx(expected, abs=1e-7)
        for head, i, j in ((0, 0, 0), (0, 1, 2), (1, 2, 0), (1, 2, 2)):
            number = (i << 16) + j + 1
            high = splitmix((start + (head << 33) + golden * number) % 2**64) >> 40
            assert pairs[b, head, i, j].item() == pytest.approx((high + 0.5) / 2**24, abs=1e-6)
