"""Attention with masked units against brute force, in its numbers and in all its gradients."""

import math
from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from layers.attention.masking.masked_attention import attention_weights, masked_attention
from layers.attention.masking.renormalised import renormalised

B, H, N, D = 2, 3, 5, 4
SCALING = 0.5
F64 = torch.float64


def inputs(seed: int = 0, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(B, H, N, D, generator=generator, dtype=F64) for _ in "qkv")
    return tuple(x.to(dtype).requires_grad_() for x in (2 * query, key, value))  # type: ignore[return-value] # three


def some_keep(heads: int, seed: int = 3) -> Tensor:
    keep = (
        torch.rand(B, heads, N, N, generator=torch.Generator().manual_seed(seed)) > 0.5
    ).double()
    keep[..., 0] = 1.0
    assert 0.2 < keep.mean() < 0.9
    return keep


def some_factors() -> Tensor:
    drawn = torch.rand(B, H, N, N, generator=torch.Generator().manual_seed(8), dtype=F64)
    return (drawn > 0.3).double() / 0.7


def padding() -> Tensor:
    real = torch.ones(B, 1, 1, N, dtype=torch.bool)
    real[0, ..., 3:] = False
    return real


BIASES: dict[str, Tensor | None] = {
    "none": None,
    "bool": padding(),
    "bool, by pairs": padding().expand(B, 1, N, N),
    "added": torch.linspace(-2, 3, H * N * N, dtype=F64).view(1, H, N, N),
    "infinite": torch.zeros(B, 1, 1, N, dtype=F64).masked_fill_(~padding(), -math.inf),
    "lowest": torch.zeros(B, 1, 1, N).masked_fill_(~padding(), torch.finfo(torch.float32).min),
}


def added(bias: Tensor | None) -> Tensor | float:
    if bias is None:
        return 0.0
    if bias.dtype == torch.bool:
        return torch.zeros(bias.shape, dtype=F64).masked_fill_(~bias, -math.inf)
    return bias


def relaxed(
    query: Tensor, key: Tensor, keep: Tensor, bias: Tensor | None, scaling: float = SCALING
) -> Tensor:
    """Weights p m / sum(p m): a function of real masks that is the softmax over 0 and 1."""
    weights = ((query @ key.mT) * scaling + added(bias)).softmax(dim=-1) * keep
    return weights / weights.sum(dim=-1, keepdim=True)


# Every bias twice, and every way to mask at least once.
WAYS = list(product((1, H), (False, True), (False, True)))
CASES = list(zip([*BIASES] * 2, cycle(WAYS), strict=False))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "way"),
    [*CASES[:3], *(pytest.param(*case, marks=pytest.mark.long) for case in CASES[3:])],
)
def test_gradcheck_and_numbers(name: str, way: tuple[int, bool, bool]) -> None:
    heads, drops, learnt = way
    keep = some_keep(heads)
    factors = some_factors() if drops else None

    def ours(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return masked_attention(
            query,
            key,
            value,
            bias=BIASES[name],
            scaling=SCALING,
            keep=keep.clone().requires_grad_(learnt),
            dropout=factors,
        )

    query, key, value = inputs()
    weights = relaxed(query, key, keep, BIASES[name])
    expected = (weights if factors is None else weights * factors) @ value
    torch.testing.assert_close(ours(query, key, value), expected, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(ours, (query, key, value))


@pytest.mark.parametrize("name", BIASES)
def test_without_masks_it_is_that_of_torch(name: str) -> None:
    query, key, value = inputs()
    bias = BIASES[name]
    torchs = None if bias is None else bias if bias.dtype == torch.bool else bias.double()
    expected = functional.scaled_dot_product_attention(query, key, value, torchs, scale=SCALING)
    out = masked_attention(query, key, value, bias=bias, scaling=SCALING)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    expected_gradients = torch.autograd.grad(expected.square().sum(), (query, key, value))
    gradients = torch.autograd.grad(out.square().sum(), (query, key, value))
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-11, atol=1e-11)
    # A mask that keeps all changes nothing, to the last bit, whether it is learnt or not.
    for learnt in (False, True):
        ones = torch.ones(B, 1, N, N, dtype=F64, requires_grad=learnt)
        unmasked = masked_attention(query, key, value, bias=bias, scaling=SCALING, keep=ones)
        assert torch.equal(unmasked, out)
        again = torch.autograd.grad(unmasked.square().sum(), (query, key, value))
        assert all(torch.equal(a, b) for a, b in zip(again, gradients, strict=True))


def gradient_by_brute_force(
    attend: Callable[[Tensor], Tensor], keep: Tensor, gradient: Tensor
) -> Tensor:
    """Of `<gradient, output>`: derivatives where kept, differences where masked, head by head."""
    wide = keep.expand(B, H, N, N).clone()
    result = torch.zeros_like(wide)
    for index in torch.cartesian_prod(*(torch.arange(n) for n in wide.shape)).tolist():
        unit = torch.zeros_like(wide)
        unit[tuple(index)] = 1.0
        if wide[tuple(index)] == 0:
            change = ((attend(wide + unit) - attend(wide)) * gradient).sum()
        else:
            step = 1e-5
            change = ((attend(wide + step * unit) - attend(wide - step * unit)) * gradient).sum()
            change = change / (2 * step)
        result[tuple(index)] = change
    return result.sum(dim=1, keepdim=True) if keep.shape[1] == 1 else result


@pytest.mark.parametrize("heads", [1, H])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("how", ["scores", "weights"])
def test_gradient_for_what_is_kept(heads: int, drops: bool, how: str) -> None:
    query, key, value = (x.detach() for x in inputs(4))
    keep = some_keep(heads).requires_grad_()
    factors = some_factors() if drops else torch.ones(B, H, N, N, dtype=F64)
    bias = padding()
    gradient = torch.randn(B, H, N, D, generator=torch.Generator().manual_seed(2), dtype=F64)

    def attend(mask: Tensor) -> Tensor:
        return (relaxed(query, key, mask, bias) * factors) @ value

    if how == "scores":
        out = masked_attention(
            query, key, value, bias=bias, scaling=SCALING, keep=keep, dropout=factors
        )
    else:
        weights = attention_weights(query, key, bias=bias, scaling=SCALING)
        # What renormalises masks no padding where something is masked: see its contract.
        out = (renormalised(weights, keep) * factors) @ value
    (found,) = torch.autograd.grad(out, keep, gradient)
    expected = gradient_by_brute_force(attend, keep.detach(), gradient)
    assert found.shape == keep.shape
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-8)
    assert (found[keep == 0].abs() > 1e-3).any()
    # Padding is not asked.
    assert (found[0, ..., 3:] == 0).all()


@pytest.mark.parametrize("how", ["scores", "weights"])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_masked_units_that_dominate(how: str, dtype: torch.dtype) -> None:
    """A score of 10,000 that is masked leaves the others as they are, and could take it all."""
    query = torch.ones(1, 1, 2, 1, dtype=dtype, requires_grad=True)
    key = torch.tensor([1e4, 1.0, 2.0], dtype=dtype).view(1, 1, 3, 1).requires_grad_()
    value = torch.tensor([5.0, 1.0, 3.0], dtype=dtype).view(1, 1, 3, 1)
    keep = torch.tensor([0.0, 1.0, 1.0], dtype=dtype).expand(1, 1, 2, 3).clone().requires_grad_()
    weights = attention_weights(query, key, bias=None, scaling=1.0).requires_grad_()
    if how == "scores":
        out = masked_attention(query, key, value, bias=None, scaling=1.0, keep=keep)
        small = math.exp(1) / (math.exp(1) + math.exp(2))
    else:
        out = renormalised(weights, keep) @ value
        small = 0.5  # both have vanished
    middle = small * 1 + (1 - small) * 3
    torch.testing.assert_close(out, torch.full_like(out, middle))
    leaves = [query, key, keep] if how == "scores" else [weights, keep]
    grads = torch.autograd.grad(out.sum(), leaves)
    assert all(torch.isfinite(grad).all() for grad in grads)
    # Alone, it would have the weight 1: the output would change to its value.
    of_keep = grads[-1]
    expected = torch.tensor([5 - middle, small * (1 - middle), (1 - small) * (3 - middle)])
    torch.testing.assert_close(of_keep[0, 0, 0], expected.to(dtype))


def test_known_weights_of_a_lost_row_have_no_gradient_and_no_nan() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.25, 0.5]]).view(1, 1, 2, 3).requires_grad_()
    keep = torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]).view(1, 1, 2, 3)
    out = renormalised(weights, keep)
    expected = torch.tensor([[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]])
    torch.testing.assert_close(out[0, 0], expected)
    (grad,) = torch.autograd.grad(out, weights, torch.tensor([[1.0, 2, 3], [1, 2, 3]])[None, None])
    torch.testing.assert_close(grad[0, 0], torch.tensor([[0.0, 0, 0], [-1, 1, 0]]))


@pytest.mark.parametrize("heads", [1, H])
def test_renormalised_is_masked_attention_through_softmax(heads: int) -> None:
    query, key, value = inputs(6)
    keep = some_keep(heads).requires_grad_()
    expected = masked_attention(query, key, value, bias=padding(), scaling=SCALING, keep=keep)
    scores = (query @ key.mT * SCALING).masked_fill(~padding(), torch.finfo(F64).min)
    out = renormalised(scores.softmax(dim=-1), keep) @ value
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    leaves = (query, key, value, keep)
    torch.testing.assert_close(
        torch.autograd.grad(out.square().sum(), leaves),
        torch.autograd.grad(expected.square().sum(), leaves),
        rtol=1e-10,
        atol=1e-11,
    )
    detached = keep.detach()

    def of_scores(scores: Tensor) -> Tensor:
        return renormalised(scores.softmax(dim=-1), detached)

    assert torch.autograd.gradcheck(of_scores, scores.detach().requires_grad_())


def test_renormalised_leaves_rows_of_which_nothing_is_lost() -> None:
    weights = torch.rand(B, H, N, N, generator=torch.Generator().manual_seed(3)) * padding()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    # Once all is kept, once all but the padding.
    for keep in (torch.ones(B, 1, N, N), padding().expand(B, 1, N, N).float()):
        assert torch.equal(renormalised(weights, keep), weights)
    keep = torch.ones(B, 1, N, N)
    keep[:, :, 1, 2] = 0
    out = renormalised(weights, keep)
    unmasked = [0, 2, 3, 4]
    assert torch.equal(out[:, :, unmasked], weights[:, :, unmasked])
    torch.testing.assert_close(out.sum(dim=-1), torch.ones(B, H, N))
    assert (out[:, :, 1, 2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["none", "bool", "infinite"])
def test_half_precision(dtype: torch.dtype, name: str) -> None:
    query, key, value = inputs(1, dtype)
    keep = some_keep(1).float().requires_grad_()
    bias = BIASES[name]
    bias = bias.to(dtype) if bias is not None and bias.dtype != torch.bool else bias
    out = masked_attention(
        query, key, value, bias=bias, scaling=SCALING, keep=keep, dropout=some_factors().to(dtype)
    )
    exact = [x.detach().double().requires_grad_() for x in (query, key, value)]
    wide = keep.detach().double().requires_grad_()
    exact_out = masked_attention(
        *exact, bias=BIASES[name], scaling=SCALING, keep=wide, dropout=some_factors()
    )
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), exact_out, rtol=0.03, atol=0.03)
    gradients = torch.autograd.grad(out.float().sum(), (query, key, value, keep))
    expected = torch.autograd.grad(exact_out.sum(), (*exact, wide))
    assert [x.dtype for x in gradients] == [dtype, dtype, dtype, torch.float32]
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_huge_biases(scale: float) -> None:
    query, key, value = inputs(2, torch.float32)
    bias = torch.linspace(-scale, scale, N).view(1, 1, 1, N)
    keep = torch.ones(B, 1, N, N)
    favourite = N - 1 if scale > 0 else 0
    keep[:, :, 0, favourite] = 0
    keep.requires_grad_()
    out = masked_attention(query, key, value, bias=bias, scaling=SCALING, keep=keep)
    second = N - 2 if scale > 0 else 1
    torch.testing.assert_close(out[:, :, 1:], value[:, :, [favourite]].expand(B, H, N - 1, D))
    torch.testing.assert_close(out[:, :, 0], value[:, :, second])
    grads = torch.autograd.grad(out.sum(), (query, key, value, keep))
    assert all(torch.isfinite(grad).all() for grad in grads)


def test_weights_are_those_that_are_used() -> None:
    query, key, _ = inputs(5)
    keep = some_keep(H)
    weights = attention_weights(query, key, bias=padding(), scaling=SCALING, keep=keep)
    torch.testing.assert_close(weights, relaxed(query, key, keep, padding()))
    everything = torch.eye(N, dtype=F64).expand(B, H, N, N)
    used = masked_attention(query, key, everything, bias=padding(), scaling=SCALING, keep=keep)
    torch.testing.assert_close(used, weights)


@pytest.mark.parametrize("heads", [0, 1, H])
@pytest.mark.parametrize("name", BIASES)
def test_a_batch_in_parts(monkeypatch: pytest.MonkeyPatch, heads: int, name: str) -> None:
    """One sample at a time: the numbers and gradients of the whole batch."""

    def found() -> tuple[Tensor, ...]:
        leaves = [*inputs(9), *([some_keep(heads).requires_grad_()] if heads else [])]
        keep = leaves[3] if heads else None
        bias, factors = BIASES[name], some_factors()
        out = masked_attention(*leaves[:3], bias=bias, scaling=SCALING, keep=keep, dropout=factors)
        return out.detach(), *torch.autograd.grad(out.square().sum(), leaves)

    at_once = found()
    monkeypatch.setattr("layers.attention.masking.masked_attention._CHUNK", H * N * N)
    assert all(torch.equal(a, b) for a, b in zip(found(), at_once, strict=True))


def test_gradients_can_be_asked_for_twice() -> None:
    """What is kept for the backward pass is not used up by it."""
    query, key, value = inputs(7)
    keep = some_keep(1).requires_grad_()
    arguments: dict[str, Any] = {"bias": padding(), "scaling": SCALING, "dropout": some_factors()}
    out = masked_attention(query, key, value, keep=keep, **arguments)
    leaves = (query, key, value, keep)
    first = torch.autograd.grad(out.sum(), leaves, retain_graph=True)
    again = torch.autograd.grad(out.sum(), leaves)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
