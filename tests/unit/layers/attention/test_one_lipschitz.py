"""One-Lipschitz attention against its definition token by token, and its promise."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from layers.attention import OneLipschitzSelfAttention
from layers.groupsort import maxmin

F64 = torch.float64
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "value clip": {"value_clip": 1.0},
    "offset heads": {"offset_heads": 3},
    "relu": {"activation": "relu"},
    "paper": {"bound": "paper"},
    "cold": {"initial_alpha_1": 0.3},
    "all": {"value_clip": 0.6, "offset_heads": 2, "initial_alpha_1": 0.7},
}


def make(**options: Any) -> OneLipschitzSelfAttention:
    torch.manual_seed(0)
    return OneLipschitzSelfAttention(8, 4, **options).double()


def tokens(lengths: list[int], radius: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens in the ball, some on its surface; mask; radius of each text."""
    torch.manual_seed(seed)
    x = torch.randn(len(lengths), max(lengths), 8, dtype=F64)
    x = radius * torch.nn.functional.normalize(x, dim=-1) * torch.rand(x.shape[:2])[..., None]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return x, mask, torch.full((len(lengths),), radius, dtype=F64)


def by_definition(layer: OneLipschitzSelfAttention, x: Tensor, radius: float) -> Tensor:
    """One text `[N, 8]`, loops over heads and pairs of tokens."""
    n, heads, size = len(x), 4, 2
    (value_map,) = layer.value.weight()
    query_map, key_map = layer.query_key.weight()
    values = x @ value_map.mT
    queries, keys = x @ query_map.mT, x @ key_map.mT
    out = torch.zeros(n, 8, dtype=F64)
    for head in range(heads):
        value = values[:, head * size : (head + 1) * size]
        if layer.value_clip is not None:
            limit = layer.value_clip * radius / math.sqrt(heads)
            value = torch.stack([v if v.norm() <= limit else v * limit / v.norm() for v in value])
        for i in range(n):
            if head < layer.offset_heads:
                neighbour = i + (-1, 1, -2, 2)[head]
                mixed = value[neighbour] if 0 <= neighbour < n else torch.zeros(size, dtype=F64)
            else:
                choosing = head - layer.offset_heads
                part = slice(choosing * size, (choosing + 1) * size)
                w = layer.score_weight()[choosing]
                logits = []
                for j in range(n):
                    both = (queries[i, part] + keys[j, part]) / 2
                    hidden = maxmin(both) if layer.activation == "maxmin" else both.clamp_min(0)
                    logits.append(w @ hidden / layer.alpha_1)
                mixed = torch.stack(logits).softmax(dim=0) @ value
            out[i, head * size : (head + 1) * size] = mixed
    lengths, limits = torch.tensor([float(n)], dtype=F64), torch.tensor([radius], dtype=F64)
    return out / layer.alpha_2(lengths, limits)


@torch.no_grad()
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_equal_to_the_definition(options: dict[str, Any]) -> None:
    layer = make(**options)
    lengths = [6, 1, 3, 2]
    x, mask, radius = tokens(lengths, 2.0)
    out, _ = layer(x, mask, radius)
    for row, length in enumerate(lengths):
        expected = by_definition(layer, x[row, :length], 2.0)
        torch.testing.assert_close(out[row, :length], expected)
    assert not bool(out[~mask].any())


@torch.no_grad()
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_forms_give_the_same(options: dict[str, Any]) -> None:
    x, mask, radius = tokens([6, 1, 3, 2], 2.0)
    expected = make(**options)(x, mask, radius)
    for form in ("pairs", "textbook"):
        for found, true in zip(make(**options, form=form)(x, mask, radius), expected, strict=True):
            torch.testing.assert_close(found, true)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@settings(max_examples=15)
@given(st.integers(1, 7), st.floats(0.2, 6.0), st.integers(0, 2**32 - 1))
def test_promise(options: dict[str, Any], length: int, radius: float, seed: int) -> None:
    """The Jacobian has norm at most 1 for the sound bound, and outputs stay in the ball given."""
    layer = make(**options)
    with torch.no_grad():
        layer.raw_score.normal_(generator=torch.Generator().manual_seed(seed))
    x, mask, radii = tokens([length], radius, seed)
    with torch.no_grad():
        out, bound = layer(x, mask, radii)
    assert float(out.norm(dim=-1).max()) <= float(bound) * (1 + 1e-9)
    if layer.bound == "paper":
        return
    jacobian = torch.func.jacrev(lambda t: layer(t, mask, radii)[0])(x)
    norm = torch.linalg.matrix_norm(jacobian.reshape(8 * length, 8 * length), 2)
    assert float(norm.detach()) <= 1 + 1e-9


@torch.no_grad()
def test_kappa_is_the_half_range_of_the_gradient() -> None:
    """Half the distance of the farthest two gradients of w . sigma, over all sign patterns."""
    for activation in ("maxmin", "relu"):
        layer = OneLipschitzSelfAttention(12, 2, activation=activation).double()
        largest = 0.0
        for w in layer.score_weight():
            gradients = []
            for pattern in range(2**6):
                on = torch.tensor([pattern >> bit & 1 for bit in range(6)], dtype=F64)
                if activation == "relu":
                    gradients.append(w * on)
                else:
                    swap = on[0::2]
                    first = torch.where(swap > 0, w[0::2], w[1::2])
                    second = torch.where(swap > 0, w[1::2], w[0::2])
                    gradients.append(torch.stack([first, second], dim=-1).flatten())
            largest = max(largest, float(torch.pdist(torch.stack(gradients)).max()) / 2)
        assert float(layer.kappa()) == pytest.approx(largest)


@torch.no_grad()
def test_starts_at_the_given_temperature_and_stays_positive() -> None:
    layer = make(initial_alpha_1=3.0)
    assert float(layer.alpha_1) == pytest.approx(3.0)
    with torch.no_grad():
        layer.raw_alpha_1.fill_(-20.0)
    assert float(layer.alpha_1) > 0
    assert float(make(initial_alpha_1=500.0).alpha_1) == pytest.approx(500.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10}, "got width=10 and heads=4, expected a width divisible by the heads"),
        ({"width": 12}, "with an even number of features per head"),
        ({"initial_alpha_1": 0.0}, "expected positive numbers"),
        ({"value_clip": -1.0}, "expected positive numbers"),
        ({"offset_heads": 4}, r"got offset_heads=4, expected 0 \.\.\. 3 of 4 heads"),
        ({"offset_heads": -1}, "got offset_heads=-1"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OneLipschitzSelfAttention(**{"width": 8, "heads": 4, **options})
