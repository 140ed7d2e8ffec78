"""Orthogonal maps: orthogonal, differentiable, cached and exported without a change of value."""

import copy

import pytest
import torch
from torch import nn

from layers.orthogonal import METHODS, Method, OrthogonalLinear, householder, newton_schulz, qr


def error(weight: torch.Tensor) -> float:
    rows = weight if weight.shape[0] <= weight.shape[1] else weight.mT
    return float((rows @ rows.mT - torch.eye(rows.shape[0])).detach().norm())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("inputs", "outputs"), [(16, 16), (16, 6), (6, 16)])
def test_every_map_is_semi_orthogonal(method: Method, inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    layer = OrthogonalLinear(inputs, outputs, count=3, method=method)
    assert layer.weight().shape == (3, outputs, inputs)
    assert max(error(weight) for weight in layer.weight()) < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_stays_orthogonal_while_training(method: Method) -> None:
    torch.manual_seed(0)
    layer = OrthogonalLinear(12, 12, method=method)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    target = OrthogonalLinear(12, 12).weight()[0].detach()
    losses = []
    for _ in range(60):
        loss = (layer.weight()[0] - target).square().sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]  # it can move
    assert error(layer.weight()[0]) < 1e-3  # and never leaves


@pytest.mark.parametrize("method", METHODS)
def test_gradients(method: Method) -> None:
    torch.manual_seed(0)
    layer = OrthogonalLinear(4, 4, count=2, method=method).double()

    def weight(raw: torch.Tensor) -> torch.Tensor:
        eye = torch.eye(4, dtype=raw.dtype)
        out: torch.Tensor = torch.func.functional_call(layer, {"raw": raw}, (eye,))
        return out

    assert torch.autograd.gradcheck(weight, (layer.raw.detach().requires_grad_(),))


def test_newton_schulz_needs_an_orthogonal_start() -> None:
    """The paper's advice to scale V down does not make 15 iterations enough; the start does."""
    torch.manual_seed(0)
    gaussian = torch.randn(64, 64) / 64
    assert error(newton_schulz(gaussian)) > 1.0
    start = nn.init.orthogonal_(torch.empty(64, 64)) + 0.01 * torch.randn(64, 64)
    assert error(newton_schulz(start)) < 1e-3


def test_qr_factor_is_the_one_with_positive_diagonal() -> None:
    torch.manual_seed(0)
    raw = torch.randn(2, 8, 8, dtype=torch.float64)
    triangle = qr(raw).mT @ raw
    assert torch.all(triangle.diagonal(dim1=-2, dim2=-1) > 0)
    assert float(triangle.tril(-1).abs().max()) < 1e-12


def test_householder_is_a_product_of_reflections() -> None:
    torch.manual_seed(0)
    raw = torch.randn(5, 5, dtype=torch.float64)
    product = torch.eye(5, dtype=torch.float64)
    for column in range(5):
        vector = raw[:, column].clone()
        vector[:column], vector[column] = 0, 1
        eye = torch.eye(5, dtype=torch.float64)
        product = product @ (eye - 2 * torch.outer(vector, vector) / vector.dot(vector))
    torch.testing.assert_close(householder(raw), product)


def test_cache_follows_the_parameter_and_survives_inference_mode() -> None:
    torch.manual_seed(0)
    layer = OrthogonalLinear(8, 8)
    with torch.inference_mode():
        first = layer.weight()
        assert layer.weight() is first
    x = torch.randn(3, 8, requires_grad=True)
    layer.requires_grad_(requires_grad=False)
    layer(x).sum().backward()  # would fail if the cached matrix were an inference tensor
    with torch.no_grad():
        layer.raw.add_(0.1)
    assert not torch.equal(layer.weight(), first)
    layer.load_state_dict({"raw": torch.zeros(1, 8, 8)})
    torch.testing.assert_close(layer.weight()[0], torch.eye(8))


@pytest.mark.parametrize("fused", [False, True])
def test_cache_notices_an_optimizer_step(fused: bool) -> None:
    """Fused optimisers change parameters without raising their version counter."""
    torch.manual_seed(0)
    layer = OrthogonalLinear(8, 8)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=fused)
    with torch.no_grad():
        before = layer.weight()
    layer.weight()[0, 0].sum().backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    optimizer.step()
    after = layer.weight().detach()
    with torch.no_grad():
        assert torch.equal(layer.weight(), after)
    assert not torch.equal(before, after)


def test_copies_keep_the_weights() -> None:
    torch.manual_seed(0)
    layer = OrthogonalLinear(8, 8, count=2).eval()
    x = torch.randn(5, 8)
    with torch.no_grad():
        assert torch.equal(copy.deepcopy(layer)(x), layer(x))
        layer.fix(torch.ones(2, 8, 8))
        assert torch.equal(layer(x), torch.nn.functional.linear(x, torch.ones(16, 8)))
    with pytest.raises(
        ValueError, match=r"got matrices of shape \(1, 8, 8\), expected \(2, 8, 8\)"
    ):
        layer.fix(torch.ones(1, 8, 8))


def test_unknown_method() -> None:
    with pytest.raises(ValueError, match="expected one of cayley"):
        OrthogonalLinear(4, 4, method="svd")  # type: ignore[arg-type] # the point of the test
