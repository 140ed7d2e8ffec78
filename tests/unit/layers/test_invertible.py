"""Invertible residual maps: inverses, honest failures, log-determinants against brute force."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn

from layers.invertible import (
    ContractiveLinear,
    Inversion,
    InvertibleResidual,
    NotInvertedError,
    invert,
    power_series,
)
from layers.norms import NORMS, Norm

F64 = torch.float64
both = pytest.mark.parametrize("norm", NORMS)


def network(norm: Norm = "inf", *, c: float = 0.9, width: int = 3) -> InvertibleResidual:
    torch.manual_seed(0)
    branch = nn.Sequential(
        ContractiveLinear(width, 8, norm=norm),
        nn.Tanh(),
        ContractiveLinear(8, 8, norm=norm),
        nn.Tanh(),
        ContractiveLinear(8, width, norm=norm),
    )
    for parameter in branch.parameters():
        nn.init.normal_(parameter, std=2.0)
    return InvertibleResidual(branch, c=c).to(F64)


def samples(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


class Scaled(nn.Module):
    """Multiplies by a factor of the sample."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        self.seen.append(len(x))
        return factor.reshape(-1, 1, 1) * x


@both
@pytest.mark.parametrize("memory", [0, 5])
def test_the_inverse_gives_the_sample_back(norm: Norm, memory: int) -> None:
    g = network(norm)
    x = samples(6, 4, 3)
    with torch.no_grad():
        inverse = g.inverse(g(x), settings=Inversion(tolerance=1e-12, memory=memory, norm=norm))
    assert inverse.converged.all()
    order = 2 if norm == "2" else math.inf
    error = torch.linalg.vector_norm((inverse.x - x).flatten(1), order, dim=1)
    assert (error <= inverse.residual / (1 - 0.9) + 1e-13).all()


@pytest.mark.slow
def test_anderson_needs_fewer_evaluations() -> None:
    torch.manual_seed(1)
    linear = ContractiveLinear(12, 12, norm="2").to(F64)
    nn.init.orthogonal_(linear.weight)
    # A symmetric map with eigenvalues from -1 to 1.
    with torch.no_grad():
        linear.weight.copy_(
            linear.weight @ torch.diag(torch.linspace(-1, 1, 12, dtype=F64)) @ linear.weight.mT
        )
    g = InvertibleResidual(linear, c=0.95)
    y = samples(3, 12)
    plain = g.inverse(y, settings=Inversion(tolerance=1e-8))
    fast = g.inverse(y, settings=Inversion(tolerance=1e-8, memory=8))
    assert int(fast.evaluations.max()) * 4 < int(plain.evaluations.min())
    torch.testing.assert_close(plain.x, fast.x, rtol=0, atol=1e-6)


def test_converged_samples_cost_nothing_more() -> None:
    branch = Scaled()
    factors = torch.tensor([0.0, 0.1, 0.9])
    inverse = invert(branch, torch.ones(3, 2, 2), factors, settings=Inversion(tolerance=1e-5))
    torch.testing.assert_close(inverse.x, (1 / (1 + factors)).reshape(3, 1, 1).expand(3, 2, 2))
    assert sum(branch.seen) == int(inverse.evaluations.sum())
    assert branch.seen[0] == 3
    assert branch.seen[-1] == 1
    assert inverse.evaluations[0] < inverse.evaluations[1] < inverse.evaluations[2]


def test_each_sample_is_inverted_as_if_alone() -> None:
    g = network()
    y = samples(5, 4, 3)
    for memory in (0, 4):
        settings = Inversion(tolerance=1e-9, memory=memory)
        together = g.inverse(y, settings=settings)
        for i in range(5):
            alone = g.inverse(y[i : i + 1], settings=settings)
            torch.testing.assert_close(alone.x[0], together.x[i], rtol=0, atol=1e-9)
            assert alone.evaluations[0] == together.evaluations[i]


@pytest.mark.parametrize("memory", [0, 3])
def test_a_map_that_is_not_inverted_says_so(memory: int) -> None:
    factors = torch.tensor([0.5, 3.0, math.nan])
    g = InvertibleResidual(Scaled(), c=0.9, lipschitz=math.inf)
    settings = Inversion(most=20, memory=memory)
    inverse = g.inverse(torch.ones(3, 2, 2), factors, settings=settings, strict=False)
    expected = [True, memory > 0, False]  # of a linear map, the combination finds the inverse
    assert inverse.converged.tolist() == expected
    assert not inverse.residual[2].isfinite()
    with pytest.raises(NotInvertedError, match=r"got a residual of inf .*for [12] of 3 samples"):
        g.inverse(torch.ones(3, 2, 2), factors, settings=settings)


def test_too_few_steps_are_reported() -> None:
    g = network("2")
    with pytest.raises(NotInvertedError, match=r"expected at most 1e-12: allow more steps"):
        g.inverse(samples(2, 4, 3) * 0.01, settings=Inversion(tolerance=1e-12, most=3))


@pytest.mark.parametrize("c", [1.0, 1.5, 0.0, -0.5, math.nan])
def test_a_factor_of_one_or_more_is_refused(c: float) -> None:
    with pytest.raises(ValueError, match="expected more than 0 and less than 1"):
        InvertibleResidual(nn.Identity(), c=c)


def test_a_constant_of_one_or_more_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a product of less than 1"):
        InvertibleResidual(nn.Identity(), c=0.5, lipschitz=2.0)
    with pytest.raises(ValueError, match="expected c f to be a contraction"):
        InvertibleResidual(nn.Identity(), lipschitz=math.inf).log_determinant(torch.ones(1, 2))


def jacobian(g: InvertibleResidual, x: Tensor) -> Tensor:
    """Of the map of one sample: `[d, d]`."""
    found: Tensor = torch.autograd.functional.jacobian(lambda x: g(x[None])[0], x)  # type: ignore[no-untyped-call] # torch's
    return found.reshape(x.numel(), x.numel())


@both
def test_the_series_averaged_over_all_signs_is_the_sum_of_traces(norm: Norm) -> None:
    g, x = network(norm), samples(2, 2, 3)
    matrices = [jacobian(g, sample) - torch.eye(6, dtype=F64) for sample in x]
    signs = list(itertools.product((-1.0, 1.0), repeat=6))
    point = x.clone().requires_grad_()
    image = g.c * g.branch(point)
    factors = [1.0, 1.0, 2.0, 0.5]
    total = torch.zeros(2, dtype=F64)
    for sign in signs:
        probe = torch.tensor(sign, dtype=F64).reshape(1, 2, 3).expand(2, 2, 3)
        total += power_series(point, image, probe, factors) / len(signs)
    for estimate, a in zip(total, matrices, strict=True):
        powers = [torch.linalg.matrix_power(a, k).trace() for k in range(1, 5)]
        expected = powers[0] - powers[1] / 2 + 2 * powers[2] / 3 - 0.5 * powers[3] / 4
        torch.testing.assert_close(estimate, expected)


@pytest.mark.slow
@both
def test_the_estimate_is_unbiased_and_knows_its_variance(norm: Norm) -> None:
    g, x = network(norm, c=0.8, width=2), samples(2, 2, 2)
    exact = torch.stack([torch.linalg.slogdet(jacobian(g, sample)).logabsdet for sample in x])
    generator = torch.Generator().manual_seed(0)
    estimate = g.log_determinant(x, draws=600, exact_terms=1, generator=generator)
    assert estimate.bias == 0
    error = estimate.variance.sqrt()
    assert (error < 0.1).all()
    assert ((estimate.value - exact).abs() < 4 * error).all()
    # The variance is that of the mean: means of fewer draws scatter as it says.
    means = [g.log_determinant(x, draws=16, exact_terms=1, generator=generator) for _ in range(30)]
    scatter = torch.stack([mean.value for mean in means]).var(dim=0)
    stated = torch.stack([mean.variance for mean in means]).mean(dim=0)
    assert ((scatter / stated).log().abs() < 0.8).all()


@pytest.mark.slow
def test_the_cut_series_is_off_by_no_more_than_its_bias() -> None:
    g, x = network("2", c=0.8, width=2), samples(2, 2, 2)
    exact = torch.stack([torch.linalg.slogdet(jacobian(g, sample)).logabsdet for sample in x])
    generator = torch.Generator().manual_seed(1)
    estimate = g.log_determinant(x, draws=800, exact_terms=3, roulette=False, generator=generator)
    assert estimate.bias == pytest.approx(4 * 0.8**4 / (4 * 0.2))
    assert ((estimate.value - exact).abs() < estimate.bias + 4 * estimate.variance.sqrt()).all()
    assert g.log_determinant(x).variance.isnan().all()


@both
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_contractive_weights_have_a_norm_of_at_most_one(norm: Norm, dtype: torch.dtype) -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        linear = ContractiveLinear(7, 5, norm=norm).to(dtype)
        nn.init.normal_(linear.weight, std=10 ** (seed / 10 - 1))
        weight = linear.contracted().detach()
        if norm == "inf":
            assert max(sum(abs(Fraction(w)) for w in row) for row in weight.tolist()) <= 1
        else:
            assert float(torch.linalg.matrix_norm(weight.to(F64), 2)) <= 1
    small = ContractiveLinear(7, 5, norm=norm).to(dtype)
    nn.init.constant_(small.weight, 0.01)
    assert torch.equal(small.contracted(), small.weight)


@both
def test_differences_of_tokens_never_grow(norm: Norm) -> None:
    g = network(norm)
    order = 2 if norm == "2" else math.inf
    x, y = samples(200, 12).reshape(200, 4, 3), samples(200, 12, seed=1).reshape(200, 4, 3) * 0.1
    moved = (g.branch(x + y) - g.branch(x)).flatten(1)
    ratios = torch.linalg.vector_norm(moved, order, dim=1)
    assert (ratios <= torch.linalg.vector_norm(y.flatten(1), order, dim=1) * (1 + 1e-12)).all()
