"""Noise: a function of seed and place, and distributed as it says."""

import pytest
import torch

from layers.noise import normal, sample_seeds, uniform


def seeds(count: int, epoch: int = 0) -> torch.Tensor:
    return sample_seeds(torch.arange(count), seed=7, epoch=epoch)


def test_noise_does_not_depend_on_batch_or_padding() -> None:
    whole = uniform(seeds(5), torch.zeros(5, 9, 4))
    for i in range(5):
        assert torch.equal(uniform(seeds(5)[i : i + 1], torch.zeros(1, 6, 4))[0], whole[i, :6])


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
