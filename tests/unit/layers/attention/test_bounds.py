"""The lemmas behind the sound bound by brute force; the paper's formula by its counterexample."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from layers.attention.bounds import AttentionNorms, attention_bound, mixing_norm

F64 = torch.float64


def tensor(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=F64)


def bound(alpha_1: float, length: int, radius: float, name: str = "sound", **norms: float) -> float:
    result = attention_bound(
        torch.tensor(alpha_1, dtype=F64),
        tensor(length),
        radius=tensor(radius),
        value_radius=tensor(radius),
        norms=AttentionNorms(**norms),
        bound=name,  # type: ignore[arg-type] # a name under test
    )
    return float(result)


@given(st.integers(2, 12), st.floats(0.0, 8.0), st.integers(0, 2**32 - 1))
def test_mixing_norm_bounds_random_row_stochastic_matrices(n: int, omega: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.rand(n, n, generator=generator, dtype=F64) * omega
    weights = logits.softmax(dim=-1)
    limit = float(mixing_norm(tensor(omega), tensor(n)))
    assert float(torch.linalg.matrix_norm(weights, 2)) <= limit * (1 + 1e-12)
    assert limit <= math.sqrt(n) * (1 + 1e-12)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_mixing_norm_is_attained(n: int) -> None:
    """Equal rows with two levels attain it; the best number of high entries is among 1 ... n."""
    for omega in (0.1, 1.0, 3.0, 6.0):
        best = 0.0
        for high in range(1, n):
            logits = torch.zeros(n, dtype=F64)
            logits[:high] = omega
            best = max(best, math.sqrt(n) * float(logits.softmax(0).norm()))
        limit = float(mixing_norm(tensor(omega), tensor(n)))
        assert best <= limit * (1 + 1e-12)
        assert best >= 0.93 * limit  # exactly attained where the best number is whole


def layer(
    x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, score: torch.Tensor, alpha_1: float
) -> torch.Tensor:
    """One head with W^V = I and MaxMin, textbook form, unscaled."""
    pairs = ((x @ q.mT).unsqueeze(-2) + (x @ k.mT).unsqueeze(-3)) / 2
    shape = pairs.shape
    pairs = pairs.reshape(*shape[:-1], -1, 2).sort(dim=-1, descending=True).values.reshape(shape)
    return ((pairs @ score) / alpha_1).softmax(dim=-1) @ x


def reflection(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The orthogonal matrix that swaps two unit vectors."""
    gap = source - target
    return torch.eye(len(source), dtype=F64) - 2 * torch.outer(gap, gap) / gap.dot(gap)


def counterexample(n: int, tau: float, step: float = 1e-7) -> float:
    """Ratio of output to input movement for an explicit pair of inputs in the unit ball.

    Score vector (1, -1, 0, 0)/sqrt(2), so a logit is the absolute value of one coordinate of
    q_i + k_j. Half of the tokens have that key coordinate slightly above 0, half slightly below,
    and opposite values. Moving all tokens along the direction that queries and keys (nearly) share
    raises all logits of one half and lowers those of the other.
    """
    move, aside, value, score = torch.eye(4, dtype=F64)
    score = torch.tensor([1.0, -1.0, 0.0, 0.0], dtype=F64) / math.sqrt(2)
    angle, offset = 0.02, 1e-3  # the key coordinate is offset * sin(angle) from the kink
    query = reflection(move, score)
    key = reflection(math.cos(angle) * move + math.sin(angle) * aside, score)
    token = math.sqrt(1 - offset**2 - step**2) * value + offset * aside
    signs = torch.tensor([1.0] * (n // 2) + [-1.0] * (n - n // 2), dtype=F64)
    x = signs[:, None] * token
    moved = x + step * move
    assert float(moved.norm(dim=-1).max()) <= 1 + 1e-15
    change = layer(moved, query, key, score, 1 / tau) - layer(x, query, key, score, 1 / tau)
    return float(change.norm() / (step * math.sqrt(n)))


@pytest.mark.parametrize("tau", [0.5, 1.0, 4.0, 25.0, 100.0])
def test_paper_bound_is_violated_by_an_explicit_example(tau: float) -> None:
    """OLSA Theorem 4.1 with tokens of norm at most r is false for N = 2; the sound bound holds."""
    ratio = counterexample(2, tau)
    assert ratio == pytest.approx(math.sqrt(1 + tau**2), rel=1e-3)
    assert ratio <= bound(1 / tau, 2, 1.0)
    if tau >= 4:
        assert ratio > 1.3 * bound(1 / tau, 2, 1.0, "paper")


@pytest.mark.parametrize("n", [2, 4, 8, 64])
def test_sound_bound_holds_on_the_example_of_any_length(n: int) -> None:
    for tau in (0.0625, 0.25, 1.0, 4.0, 16.0):
        assert counterexample(n, tau) <= bound(1 / tau, n, 1.0)


def test_sound_bound_reproduces_known_values() -> None:
    """Rows of the table in docs/certificates.md: (N, alpha_1) at r = 4, unit norms."""
    for n, alpha_1, expected in ((8, 64, 1.064), (8, 4, 2.376), (20, 1, 11.65), (128, 4, 2.447)):
        assert bound(alpha_1, n, 4.0) == pytest.approx(expected, abs=6e-3)


@pytest.mark.long
@given(st.floats(0.05, 50.0), st.integers(1, 60), st.floats(0.1, 8.0))
def test_grows_with_length_radius_and_norms(alpha_1: float, length: int, radius: float) -> None:
    base = bound(alpha_1, length, radius)
    assert bound(alpha_1, length + 1, radius) >= base * (1 - 1e-12)
    assert bound(alpha_1, length, 1.1 * radius) >= base
    assert bound(alpha_1 * 1.1, length, radius) <= base * (1 + 1e-12)
    for name in ("query", "key", "value", "score"):
        assert bound(alpha_1, length, radius, "sound", **{name: 1.1}) >= base


def test_one_token_attends_to_itself() -> None:
    assert bound(0.01, 1, 4.0, value=1.5) == 1.5


def test_gradient_is_finite_everywhere() -> None:
    alpha_1 = torch.tensor(0.02, dtype=F64, requires_grad=True)
    lengths = torch.tensor([1.0, 2.0, 3.0, 50.0], dtype=F64)
    radius = torch.full_like(lengths, 4.0)
    total = attention_bound(alpha_1, lengths, radius=radius, value_radius=radius).sum()
    total.backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    assert alpha_1.grad is not None
    assert torch.isfinite(alpha_1.grad)
