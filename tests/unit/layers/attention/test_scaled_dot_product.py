"""The baseline's attention against its formula."""

import math

import pytest
import torch

from layers.attention import SelfAttention


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_equal_to_the_formula(heads: int) -> None:
    torch.manual_seed(0)
    layer = SelfAttention(8, heads).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    lengths = [5, 3, 1]
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    out = layer(x, mask)
    size = 8 // heads
    for row, length in enumerate(lengths):
        tokens = x[row, :length]
        query, key, value = layer.qkv(tokens).chunk(3, dim=-1)
        mixed = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].mT / math.sqrt(size)
            mixed.append(scores.softmax(dim=-1) @ value[:, part])
        expected = layer.output(torch.cat(mixed, dim=-1))
        torch.testing.assert_close(out[row, :length], expected)


def test_dropout_is_for_training() -> None:
    torch.manual_seed(0)
    layer = SelfAttention(8, 2, dropout=0.5)
    x, mask = torch.randn(2, 6, 8), torch.ones(2, 6, dtype=torch.bool)
    assert not torch.equal(layer(x, mask), layer(x, mask))
    layer.eval()
    assert torch.equal(layer(x, mask), layer(x, mask))


def test_width_is_divisible() -> None:
    with pytest.raises(ValueError, match="got width=8 and heads=3, expected a width divisible"):
        SelfAttention(8, 3)
