"""Unitary factors: those of the definition, orthogonal, by the route that was meant."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from layers import unitary
from layers.unitary import METHODS, UnitaryMethod, project_, unitary_factor, unitary_residual

Make = Callable[[int], Tensor]


def orthogonal(size: int, count: int = 3) -> Tensor:
    torch.manual_seed(size)
    q: Tensor = torch.linalg.qr(torch.randn(count, size, size))[0]
    return q.contiguous()


def stepped(size: int) -> Tensor:
    """Orthogonal matrices after a step of Adam: every entry moves by the learning rate."""
    return orthogonal(size) + 1e-4 * torch.randn(3, size, size).sign()


def uniform(size: int) -> Tensor:
    torch.manual_seed(size)
    return torch.rand(3, size, size)


def gaussian(size: int) -> Tensor:
    torch.manual_seed(size)
    return torch.randn(3, size, size)


def definition(stack: Tensor) -> Tensor:
    """Equations 3 to 5 of the paper, in float64, by Householder reflections."""
    q, r = torch.linalg.qr(stack.double())
    factor: Tensor = q @ torch.diag_embed(r.diagonal(dim1=1, dim2=2).sign())
    return factor


def nearest(stack: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(stack.double())
    factor: Tensor = left @ right
    return factor


def entries(difference: Tensor) -> float:
    return float(difference.abs().max())


SIZES = [1, 2, 7, 96, 97, 200]
"""Below, at and above the width of a panel."""


@pytest.mark.parametrize("make", [stepped, gaussian, uniform, orthogonal])
@pytest.mark.parametrize("size", SIZES)
def test_qr_is_the_definition(make: Make, size: int) -> None:
    stack = make(size)
    factor, residual = unitary_factor(stack)
    assert factor.dtype == torch.float32
    assert entries(factor - definition(stack)) < 1e-5
    assert residual.shape == (3,)
    assert float(residual.max()) < 1e-5


@pytest.mark.parametrize("make", [stepped, gaussian, orthogonal])
@pytest.mark.parametrize("size", SIZES)
def test_polar_is_the_nearest(make: Make, size: int) -> None:
    stack = make(size)
    factor, residual = unitary_factor(stack, "polar")
    assert entries(factor - nearest(stack)) < 1e-6
    assert float(residual.max()) < 1e-5


@pytest.mark.long
def test_width_of_a_bert() -> None:
    stack = stepped(768)[:1]
    factor, residual = unitary_factor(stack)
    assert entries(factor - definition(stack)) < 1e-6
    assert float(residual) < 5e-6


def test_qr_is_not_the_nearest() -> None:
    """Unlike the paper says: "the closest unitary matrices using the QR factorization"."""
    stack = stepped(200)
    by_qr, _ = unitary_factor(stack)
    by_polar, _ = unitary_factor(stack, "polar")
    norm = torch.linalg.matrix_norm
    assert bool((norm(stack - by_polar) < 0.8 * norm(stack - by_qr)).all())


@pytest.mark.parametrize("method", METHODS)
def test_double_precision_stays(method: UnitaryMethod) -> None:
    stack = stepped(100).double()
    factor, residual = unitary_factor(stack, method)
    assert factor.dtype == torch.float64
    expected = definition(stack) if method == "qr" else nearest(stack)
    assert entries(factor - expected) < 1e-13
    assert float(residual.max()) < 1e-13


@pytest.fixture
def route(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the steps that are taken."""
    taken: list[str] = []

    def spy(name: str) -> None:
        original = getattr(unitary, name)

        def noted(matrices: Tensor) -> Tensor:
            taken.append(name)
            made: Tensor = original(matrices)
            return made

        monkeypatch.setattr(unitary, name, noted)

    spy("_panels")
    spy("_householder")
    return taken


def test_one_round_after_a_step(route: list[str]) -> None:
    unitary_factor(stepped(200))
    assert route == ["_panels"]


def test_two_rounds_where_it_is_farther(route: list[str]) -> None:
    stack = 3 * orthogonal(50) + 0.1 * torch.randn(3, 50, 50)
    unitary_factor(stack)
    assert route == ["_panels", "_panels"]


@pytest.mark.parametrize("size", [3, 150])
def test_householder_for_a_singular_one_among_others(route: list[str], size: int) -> None:
    stack = stepped(size)
    stack[1, :, 1] = stack[1, :, 0]
    factor, residual = unitary_factor(stack)
    assert route == ["_panels", "_panels", "_householder"]
    assert float(residual.max()) < 1e-5
    assert entries(factor[[0, 2]] - definition(stack[[0, 2]])) < 1e-6
    assert entries(factor[1, :, 0] - stack[1, :, 0] / stack[1, :, 0].norm()) < 1e-6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1e25])
def test_scale_is_no_matter(method: UnitaryMethod, scale: float) -> None:
    stack = gaussian(30)
    factor, residual = unitary_factor(scale * stack, method)
    assert float(residual.max()) < 1e-5
    assert entries(factor - unitary_factor(stack, method)[0]) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_zeros(method: UnitaryMethod) -> None:
    """The sign of a zero on the diagonal of R counts as positive; 0 would leave no unitary Q."""
    _, residual = unitary_factor(torch.zeros(2, 5, 5), method)
    assert float(residual.max()) < 1e-6
    assert bool((unitary_factor(torch.zeros(2, 5, 5))[0] == torch.eye(5)).all())


def test_ill_conditioned() -> None:
    """A condition number whose square float32 cannot hold."""
    stack = orthogonal(120) * torch.logspace(0, -6, 120)
    factor, residual = unitary_factor(stack)
    assert float(residual.max()) < 1e-5
    assert entries(factor - definition(stack)) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_projecting_again_changes_nothing_but_rounding(method: UnitaryMethod) -> None:
    once, _ = unitary_factor(gaussian(150), method)
    assert entries(unitary_factor(once, method)[0] - once) < 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_each_matrix_by_itself(method: UnitaryMethod) -> None:
    stack = torch.cat([stepped(24), gaussian(24)])
    together, _ = unitary_factor(stack, method)
    alone = torch.cat([unitary_factor(matrix[None], method)[0] for matrix in stack])
    assert entries(together - alone) < 1e-5


def test_in_place_and_of_any_sizes() -> None:
    weights = [gaussian(7)[0], gaussian(12)[0], gaussian(7)[1].double(), gaussian(7)[2]]
    expected = [definition(weight[None])[0] for weight in weights]
    where = [weight.data_ptr() for weight in weights]
    residual = unitary_residual(weights)
    for weight, value in zip(weights, residual, strict=True):
        assert float(value) == pytest.approx(entries(weight.mT @ weight - torch.eye(len(weight))))
    project_(weights)
    assert [weight.data_ptr() for weight in weights] == where
    for weight, true in zip(weights, expected, strict=True):
        assert entries(weight - true) < 1e-5
    assert float(unitary_residual(weights).max()) < 1e-5


def test_parameters_keep_their_graph_out_of_it() -> None:
    layer = nn.Linear(6, 6)
    before = layer.weight
    project_([layer.weight])
    assert layer.weight is before
    assert layer.weight.requires_grad
    assert layer.weight.grad_fn is None


def test_transposed_storage() -> None:
    matrix = gaussian(9)[0]
    view = matrix.clone().mT
    expected = definition(view[None])[0]
    project_([view])
    assert entries(view - expected) < 1e-5


def test_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stepped(40)
    expected, _ = unitary_factor(stack)
    monkeypatch.setattr(unitary, "_SCRATCH_ON_CPU", 40 * 40 * 4)
    factor, residual = unitary_factor(stack)
    assert residual.shape == (3,)
    assert entries(factor - expected) < 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_part_of_the_way(method: UnitaryMethod) -> None:
    matrix = gaussian(10)[0]
    factor = unitary_factor(matrix[None], method)[0][0]
    moved = matrix.clone()
    project_([moved], method, share=0.25)
    assert entries(moved - (0.75 * matrix + 0.25 * factor)) < 1e-6


@pytest.fixture(params=["for all", "by device"])
def low_precision(request: pytest.FixtureRequest) -> Iterator[Callable[[], object]]:
    """Both ways to allow products of few digits; gives what reads the setting."""
    backends: Any = torch.backends
    cpu, gpu = backends.mkldnn.matmul, backends.cuda.matmul
    if request.param == "for all":
        torch.set_float32_matmul_precision("medium")
        yield torch.get_float32_matmul_precision
        torch.set_float32_matmul_precision("highest")
    else:
        before = cpu.fp32_precision, gpu.fp32_precision
        cpu.fp32_precision = "bf16"
        yield lambda: (cpu.fp32_precision, gpu.fp32_precision)
        cpu.fp32_precision, gpu.fp32_precision = before


@pytest.mark.parametrize("method", METHODS)
def test_full_precision_whatever_is_allowed_elsewhere(
    method: UnitaryMethod, low_precision: Callable[[], object]
) -> None:
    stack = stepped(64)
    setting = low_precision()
    with torch.autocast("cpu", torch.bfloat16):
        factor, residual = unitary_factor(stack, method)
    assert low_precision() == setting
    expected = definition(stack) if method == "qr" else nearest(stack)
    assert entries(factor - expected) < 1e-6
    assert float(residual.max()) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_repeats_itself(method: UnitaryMethod) -> None:
    stack = torch.cat([stepped(64), gaussian(64)])
    first = unitary_factor(stack, method)[0]
    assert torch.equal(first, unitary_factor(copy.deepcopy(stack), method)[0])


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 4\), expected matrices with"):
        unitary_factor(torch.randn(2, 3, 4))
    with pytest.raises(ValueError, match=r"shape \(3,\), expected matrices with"):
        unitary_factor(torch.randn(2, 3))
    with pytest.raises(ValueError, match="expected one of qr, polar"):
        unitary_factor(torch.randn(2, 3, 3), "lu")  # type: ignore[arg-type] # what is tested
    for dtype in (torch.bfloat16, torch.float16):
        with pytest.raises(ValueError, match=r"torch\.b?float16, expected float32 or float64"):
            unitary_factor(torch.randn(2, 3, 3).to(dtype))
    for method in METHODS:
        for wrong in (torch.nan, torch.inf):
            spoilt = stepped(5)
            spoilt[1, 2, 3] = wrong
            with pytest.raises(ValueError, match="infinite or not numbers"):
                unitary_factor(spoilt, method)
