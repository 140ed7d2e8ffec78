"""Norm bounds: never below the norm, and tight where certificates need it."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from layers.norms import operator_norm_bound, spectral_norm_bound
from layers.orthogonal import METHODS, Method, OrthogonalLinear, newton_schulz

F64 = torch.float64
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 24)


def norm(weight: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.to(F64), 2))


def matrix(rows: int, columns: int, seed: int, dtype: torch.dtype = F64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=dtype)


@pytest.mark.long
@given(SIZES, SIZES, st.integers(-140, 140), st.floats(0.0, 12.0), SEEDS)
def test_never_below_the_norm(
    rows: int, columns: int, exponent: int, spread: float, seed: int
) -> None:
    """Any shape and scale, singular values spread over up to twelve orders of magnitude."""
    left, _ = torch.linalg.qr(matrix(rows, rows, seed))
    right, _ = torch.linalg.qr(matrix(columns, columns, seed + 1))
    values = 10 ** (-spread * torch.rand(min(rows, columns), dtype=F64))
    weight = (left[:, : len(values)] * values) @ right[: len(values)] * 10.0**exponent
    bound = float(spectral_norm_bound(weight))
    assert bound >= norm(weight) * (1 - 1e-14)  # the reference has a rounding error of its own
    assert bound <= norm(weight) * len(values) ** (1 / 1024) * (1 + 1e-8)


@pytest.mark.long
@given(SIZES, SIZES, st.floats(0.0, 1e-3), SEEDS)
def test_never_below_the_norm_of_nearly_orthogonal_matrices(
    rows: int, columns: int, defect: float, seed: int
) -> None:
    size = max(rows, columns)
    square, _ = torch.linalg.qr(matrix(size, size, seed))
    weight = (square + defect * matrix(size, size, seed + 1))[:rows, :columns]
    for candidate in (weight, weight.float()):
        assert float(spectral_norm_bound(candidate)) >= norm(candidate) * (1 - 1e-14)


@pytest.mark.parametrize("size", [2, 3, 16])
def test_covers_norms_that_are_known_exactly(size: int) -> None:
    """Integer and power-of-two matrices have norms without a rounding error to hide behind."""
    ones, eye = torch.ones(size, size, dtype=F64), torch.eye(size, dtype=F64)
    for weight, exact in ((ones, size), (eye, 1), (eye * 2.0**-600, 2.0**-600), (3 * eye, 3)):
        assert float(spectral_norm_bound(weight)) >= exact
    assert float(spectral_norm_bound(eye)) <= 1 + 1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (64, 24), (24, 64)])
def test_tight_for_orthogonal_layers(method: Method, inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    weight = OrthogonalLinear(inputs, outputs, method=method).weight()[0].detach()
    bound = float(spectral_norm_bound(weight))
    assert norm(weight) * (1 - 1e-14) <= bound <= norm(weight) * (1 + 1e-4)


def test_tight_for_scaled_orthogonal_matrices() -> None:
    """The worst case of the iteration: all singular values equal, none of them 1."""
    weight, _ = torch.linalg.qr(matrix(256, 256, 0))
    for scale in (0.3, 1.01, 7.0):
        bound = float(spectral_norm_bound(scale * weight))
        assert scale * (1 - 1e-12) <= bound <= scale * 256 ** (1 / 1024) * (1 + 1e-6)


def test_newton_schulz_that_has_not_converged() -> None:
    """Far from orthogonal and possibly above 1: the norm is measured and not assumed."""
    for iterations in (1, 5, 15, 25):
        weight = newton_schulz(matrix(32, 32, 0, torch.float32), iterations)
        bound = float(spectral_norm_bound(weight))
        assert norm(weight) * (1 - 1e-14) <= bound <= norm(weight) * 32 ** (1 / 1024) * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e-40, 1e38, 1e150, 1e300])
def test_tiny_and_huge_entries(scale: float) -> None:
    weight = torch.tensor([[1.0, 0.5], [0.0, 1.0]], dtype=F64) * scale
    exact = (1 + math.sqrt(17)) / 4 * scale
    bound = float(spectral_norm_bound(weight))
    assert exact * (1 - 1e-3 if scale < 1e-310 else 1 - 1e-15) <= bound <= exact * (1 + 2e-3)


def test_zero_and_what_is_not_finite() -> None:
    assert float(spectral_norm_bound(torch.zeros(3, 5))) == 0.0
    for bad in (math.nan, math.inf, -math.inf):
        weight = torch.eye(3)
        weight[0, 1] = bad
        assert not math.isfinite(float(spectral_norm_bound(weight)))


def test_transposing_changes_nothing_that_matters() -> None:
    weight = matrix(5, 30, 0)
    assert torch.equal(spectral_norm_bound(weight), spectral_norm_bound(weight.mT))


@pytest.mark.long
@given(SIZES, SIZES, SEEDS)
def test_row_sums_are_never_below_the_exact_ones(rows: int, columns: int, seed: int) -> None:
    weight = matrix(rows, columns, seed) * 0.1
    exact = max(sum(abs(Fraction(entry)) for entry in row) for row in weight.tolist())
    bound = Fraction(float(operator_norm_bound(weight, "inf")))
    assert exact <= bound <= exact * (1 + Fraction(1, 10**12))


def test_norms_by_name() -> None:
    weight = torch.tensor([[3.0, -4.0], [1.0, 1.0]])
    assert float(operator_norm_bound(weight, "inf")) == pytest.approx(7)
    assert torch.equal(operator_norm_bound(weight, "2"), spectral_norm_bound(weight))
    weight[0, 1] = math.nan
    assert not math.isfinite(float(operator_norm_bound(weight, "inf")))
