"""The scores without an N * N * d tensor equal the textbook form: values and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from layers.attention.additive import Activation, Form, additive_scores

SEEDS = st.integers(0, 2**32 - 1)


def tensors(batch: int, heads: int, length: int, width: int) -> list[torch.Tensor]:
    shapes = [(batch, heads, length, width)] * 2 + [(heads, width)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.long
@pytest.mark.parametrize("activation", ["maxmin", "relu"])
@pytest.mark.parametrize("form", ["cdist", "pairs"])
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 7), st.integers(1, 4), SEEDS)
def test_equal_to_the_textbook_form(
    activation: Activation, form: Form, batch: int, heads: int, length: int, half: int, seed: int
) -> None:
    torch.manual_seed(seed)
    inputs = tensors(batch, heads, length, 2 * half)
    upstream = torch.randn(batch, heads, length, length, dtype=torch.float64)
    results = []
    for name in ("textbook", form):
        # The forms differ by a constant of each row, which the softmax takes away.
        weights = additive_scores(*inputs, activation=activation, form=name).softmax(dim=-1)
        results.append((weights, *torch.autograd.grad((weights * upstream).sum(), inputs)))
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("activation", ["maxmin", "relu"])
def test_gradcheck(activation: Activation) -> None:
    torch.manual_seed(0)
    inputs = tensors(2, 2, 3, 4)
    assert torch.autograd.gradcheck(
        lambda q, k, w: additive_scores(q, k, w, activation=activation), inputs
    )


def test_memory_does_not_grow_with_the_head_width() -> None:
    """No saved tensor has N * N * e elements."""
    torch.manual_seed(0)
    length, width = 24, 16
    query, key, weight = (t.float().detach().requires_grad_() for t in tensors(1, 1, length, width))
    sizes: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        additive_scores(query, key, weight)
    assert max(sizes) <= length * max(length, width)
