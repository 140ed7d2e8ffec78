"""Theorem 3.2 of Kim et al.: our bound is never violated, the printed one is."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from layers.attention.bounds import mixing_norm
from layers.attention.l2 import ContractiveL2Attention, TiedL2Attention
from layers.attention.l2_bounds import (
    FORMULAS,
    Formula,
    ball_gain,
    l2_bound,
    mixing_gain,
    phi_inverse,
)
from layers.norms import NORMS, Norm


def layer(
    heads: int, size: int, *, scale: float = 1.0, seed: int = 0, wide: bool = False
) -> TiedL2Attention:
    torch.manual_seed(seed)
    module = TiedL2Attention(heads * size, heads, wide=wide).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return module


@torch.no_grad()
def bound_of(module: TiedL2Attention, tokens: int, norm: Norm, formula: Formula = "sound") -> float:
    return float(module.bound(torch.tensor([tokens]), norm=norm, formula=formula))


def jacobian_norm(module: TiedL2Attention, x: Tensor, norm: Norm) -> Tensor:
    mask = torch.ones(1, x.shape[0], dtype=torch.bool)
    return operator_norm(partial(one_text, module, mask), x, norm)


def one_text(module: TiedL2Attention, mask: Tensor, x: Tensor) -> Tensor:
    mixed: Tensor = module(x[None], mask)[0]
    return mixed


def operator_norm(function: Callable[[Tensor], Tensor], x: Tensor, norm: Norm) -> Tensor:
    """Of the derivative at x, by all of its entries; differentiable."""
    # torch's fused attention has no second derivative.
    with sdpa_kernel(SDPBackend.MATH):
        rows: Tensor = torch.func.jacrev(lambda flat: function(flat.view_as(x)).flatten())(
            x.flatten()
        )
    return rows.abs().sum(1).amax() if norm == "inf" else torch.linalg.matrix_norm(rows, 2)


def climbed(module: TiedL2Attention, tokens: int, norm: Norm, *, steps: int = 25) -> float:
    """The largest norm of the Jacobian on the way up from a few random inputs."""
    best = 0.0
    for seed, spread in enumerate((0.5, 2.0)):
        draw = torch.Generator().manual_seed(seed)
        width = module.output.in_features
        x = spread * torch.randn(tokens, width, generator=draw, dtype=torch.float64)
        x.requires_grad_()
        optimiser = torch.optim.Adam([x], lr=0.1, maximize=True)
        for _ in range(steps):
            gain = jacobian_norm(module, x, norm)
            best = max(best, gain.item())
            optimiser.zero_grad()
            torch.autograd.backward(gain)
            optimiser.step()
    return best


def test_phi_inverse() -> None:
    x = torch.tensor([0.0, 1e-12, 0.5, 1.0, math.e, 3.0, 63.0, 1e3, 1e9, 1e30], dtype=torch.float64)
    c = phi_inverse(x)
    torch.testing.assert_close(c * (c + 1).exp(), x)
    # The design's figures for 20 and 64 tokens: 31.72 and 81.8 with phi^-1, 49.5 with our form.
    lengths = torch.tensor([20, 64])
    theirs = mixing_gain(lengths, size=1, norm="2", formula="kim")
    torch.testing.assert_close(
        theirs, torch.tensor([31.72, 81.83], dtype=torch.float64), atol=0.01, rtol=0
    )
    assert float(mixing_gain(lengths, size=1, norm="2")[1]) == pytest.approx(49.53, abs=0.01)


@pytest.mark.parametrize("norm", NORMS)
def test_ours_grows_with_the_length_and_never_exceeds_theirs(norm: Norm) -> None:
    lengths = torch.arange(1, 400)
    for size in (1, 2, 64):
        for formula in FORMULAS:
            gains = mixing_gain(lengths, size=size, norm=norm, formula=formula)
            assert all(one < other for one, other in pairwise(gains.tolist()))
    for seed in range(20):
        weights = layer(3, 2, scale=1 + seed / 4, seed=seed, wide=seed % 2 > 0).weights()
        ours = l2_bound(weights, lengths, norm=norm)
        assert (ours <= l2_bound(weights, lengths, norm=norm, formula="kim") * (1 + 1e-6)).all()


@pytest.mark.long
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("tokens", [2, 5])
@pytest.mark.parametrize(
    ("heads", "size", "scale"),
    [(1, 1, 1.0), (2, 2, 0.7), pytest.param(1, 2, 2.0, marks=pytest.mark.slow)],
)
def test_a_search_never_exceeds_our_bound(
    norm: Norm, tokens: int, heads: int, size: int, scale: float
) -> None:
    module = layer(heads, size, scale=scale, seed=tokens)
    bound = bound_of(module, tokens, norm)
    gain = climbed(module, tokens, norm)
    assert 0.02 * bound < gain < bound


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("heads", "size"), [(1, 1), (2, 2)])
def test_a_search_never_exceeds_the_bound_of_wide_queries(
    norm: Norm, heads: int, size: int
) -> None:
    module = layer(heads, size, scale=0.7, wide=True)
    gain = climbed(module, 3, norm)
    assert 0.02 * bound_of(module, 3, norm) < gain < bound_of(module, 3, norm)


FOUND = (-0.096366, 0.264435, -0.432519, 0.26445)
"""Four tokens of one feature, by gradient ascent."""


def test_the_printed_bound_is_violated_and_ours_is_not() -> None:
    module = layer(1, 1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(1.0)
        module.qkv.weight[0] = 4.0
        module.output.bias.fill_(0.0)
    x = torch.tensor(FOUND, dtype=torch.float64).unsqueeze(1)
    gain = jacobian_norm(module, x, "2").item()
    printed, theirs = bound_of(module, 4, "2", "paper"), bound_of(module, 4, "2", "kim")
    ours = bound_of(module, 4, "2")
    assert printed == pytest.approx(27.31, abs=0.01)
    assert theirs == pytest.approx(4 * printed)
    assert printed < 33 < gain < ours < theirs


@pytest.mark.parametrize("tokens", [3, 9, 101])
def test_the_factor_of_the_variance_cannot_be_smaller(tokens: int) -> None:
    """One feature: half of the others at 1 + c to each side, c = phi^-1(N - 1)."""
    module = layer(1, 1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(1.0)
    c = float(phi_inverse(torch.tensor(tokens - 1)))
    x = torch.full((tokens, 1), math.sqrt(1 + c), dtype=torch.float64)
    x[0], x[1::2] = 0.0, -math.sqrt(1 + c)
    gain = jacobian_norm(module, x, "inf").item()
    bound = bound_of(module, tokens, "inf")
    own = 1 / (1 + (tokens - 1) * math.exp(-1 - c))
    assert gain == pytest.approx(4 * c - 1 + 2 * own)
    assert bound - 2 < gain < bound


@pytest.mark.long
@pytest.mark.parametrize("norm", NORMS)
def test_causal_layers_have_the_bound_too_and_blind_tokens_have_none(norm: Norm) -> None:
    module = layer(1, 2)
    module.causal = True
    assert climbed(module, 4, norm) < bound_of(module, 4, norm)
    norms = []
    for spread in (1.0, 10.0, 100.0):
        x = spread * torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
        mask = torch.tensor([[False, True, True]])  # the first token does not see itself
        module.causal = False
        norms.append(operator_norm(partial(one_text, module, mask), x, norm).item())
    assert norms[2] > 10 * norms[1] > 100 * norms[0]


@pytest.mark.long
@pytest.mark.parametrize("norm", NORMS)
def test_contractive_layers_contract_and_have_gradients(norm: Norm) -> None:
    torch.manual_seed(0)
    module = ContractiveL2Attention(4, 2, length=6, norm=norm).double()
    assert 0.001 < climbed(module, 6, norm) < 1
    x, mask = torch.randn(1, 6, 4, dtype=torch.float64), torch.ones(1, 6, dtype=torch.bool)
    torch.autograd.backward(module(x, mask).sum())
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_theirs_is_the_product_over_heads() -> None:
    """Theorem 3.2 by its proof, head by head, in the norm 2."""
    module = layer(3, 2, seed=1)
    weights = module.weights()
    tokens, size = 5, 2

    def spectral(matrix: Tensor) -> float:
        return float(torch.linalg.matrix_norm(matrix.detach(), 2))

    pairs = zip(weights.query, weights.value, strict=True)
    of_heads = sum((spectral(query) ** 2 * spectral(value)) ** 2 for query, value in pairs)
    variance = float(phi_inverse(torch.tensor(tokens - 1)))
    expected = math.sqrt(tokens) * (4 * variance + 1) / math.sqrt(size)
    expected *= math.sqrt(of_heads) * spectral(weights.output)
    assert bound_of(module, tokens, "2", "kim") == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("tokens", [2, 3, 20])
@pytest.mark.parametrize("radius", [0.1, 0.7, 5.0])
def test_the_constant_in_a_ball_is_that_of_its_theorem(tokens: int, radius: float) -> None:
    """docs/certificates.md, Theorem 3, term by term."""
    alpha_1 = 1.3
    reach, variance = radius**2 / alpha_1, float(phi_inverse(torch.tensor(tokens - 1)))
    peak = 1 / (1 + (tokens - 1) * math.exp(-4 * reach))
    keys = min(4 * reach * math.sqrt(tokens * min(0.5, peak)), 2 * variance * math.sqrt(tokens))
    length = torch.tensor([float(tokens)], dtype=torch.float64)
    mixing = float(mixing_norm(torch.full_like(length, 4 * reach), length))
    found = ball_gain(
        torch.tensor(alpha_1), length, radius=torch.full_like(length, radius), bound="sound"
    )
    assert float(found) == pytest.approx(mixing + 2 * min(reach, variance) + keys, rel=1e-6)


def test_wrong_names() -> None:
    weights = layer(1, 1).weights()
    with pytest.raises(ValueError, match=r"norm='1'.*expected one of 2, inf"):
        l2_bound(weights, torch.tensor([3]), norm="1")  # type: ignore[arg-type] # on purpose
