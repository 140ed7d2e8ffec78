"""Word and position parts of fixed norm: tokens stay in a known ball."""

import pytest
import torch

from layers import NormalizedEmbedding


@pytest.mark.parametrize("pairs", [False, True])
def test_parts_have_the_norm_and_tokens_the_radius(pairs: bool) -> None:
    torch.manual_seed(0)
    layer = NormalizedEmbedding(20, 8, max_length=6, pairs=pairs, norm=1.5)
    ids = torch.randint(20, (4, 6))
    segments = torch.randint(2, (4, 6)) if pairs else None
    out = layer(ids, segments)
    assert out.shape == (4, 6, 8)
    assert layer.radius == 3.0
    assert float(out.detach().norm(dim=-1).max()) <= 3.0 * (1 + 1e-6)
    # The same word in two places differs by the position parts alone, and each has the norm.
    words = 1.5 * torch.nn.functional.normalize(layer.words(ids), dim=-1)
    for part in (words, out - words):
        torch.testing.assert_close(part.norm(dim=-1), torch.full((4, 6), 1.5))


def test_only_directions_matter() -> None:
    torch.manual_seed(0)
    layer = NormalizedEmbedding(5, 8, max_length=3)
    ids = torch.tensor([[0, 4, 2]])
    before = layer(ids)
    before.sum().backward()
    assert layer.words.weight.grad is not None
    along = (layer.words.weight.grad * layer.words.weight).sum(dim=-1)
    torch.testing.assert_close(along, torch.zeros(5), atol=1e-5, rtol=0)
    with torch.no_grad():
        layer.words.weight.mul_(7.0)
        layer.positions.weight.mul_(0.1)
    torch.testing.assert_close(layer(ids), before)


def test_position_and_segment_are_told_apart() -> None:
    torch.manual_seed(0)
    layer = NormalizedEmbedding(5, 8, max_length=4, pairs=True)
    ids = torch.ones(1, 2, dtype=torch.int64)
    out = layer(ids, torch.tensor([[0, 0]]))
    assert not torch.allclose(out[0, 0], out[0, 1])
    other = layer(ids, torch.tensor([[0, 1]]))
    assert torch.equal(other[0, 0], out[0, 0])
    assert not torch.allclose(other[0, 1], out[0, 1])


def test_errors() -> None:
    layer = NormalizedEmbedding(5, 8, max_length=4, pairs=True)
    with pytest.raises(ValueError, match="got 5 tokens, expected at most max_length=4"):
        layer(torch.zeros(1, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match="got a batch without segment ids, expected pairs"):
        layer(torch.zeros(1, 4, dtype=torch.int64))
