"""Word and position parts of fixed norm: tokens stay in a known ball."""

import pytest
import torch

from layers import NormalizedEmbedding, PlainEmbedding, WordEmbedding
from layers.embeddings import Positions, sinusoids


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
        layer.get_parameter("positions.weight").mul_(0.1)
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


def test_sinusoids_are_those_of_the_paper() -> None:
    waves = sinusoids(7, 6).double()
    for position in range(7):
        for i in range(3):
            angle = torch.tensor(position / 10_000 ** (2 * i / 6), dtype=torch.float64)
            assert float(waves[position, 2 * i]) == pytest.approx(float(angle.sin()), abs=1e-6)
            assert float(waves[position, 2 * i + 1]) == pytest.approx(float(angle.cos()), abs=1e-6)
    assert sinusoids(7, 5).shape == (7, 5)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_plain_words_and_places_are_added(positions: Positions, pairs: bool) -> None:
    torch.manual_seed(0)
    layer = PlainEmbedding(9, 16, max_length=5, pairs=pairs, positions=positions)
    ids = torch.tensor([[3, 4, 3]])
    segments = torch.tensor([[0, 1, 1]]) if pairs else None
    expected = 4.0 * layer.words(ids)
    if layer.positions is not None:
        expected = expected + layer.positions(torch.arange(3))
    if positions == "sinusoidal":
        expected = expected + sinusoids(5, 16)[:3]
    if layer.segments is not None:
        expected = expected + layer.segments(torch.tensor([[0, 1, 1]]))
    torch.testing.assert_close(layer(ids, segments), expected)
    assert ("positions.weight" in layer.state_dict()) is (positions == "learned")
    torch.testing.assert_close(
        PlainEmbedding(9, 16, max_length=5, positions="none", scale=1.0)(ids).norm(dim=-1).mean(),
        torch.tensor(1.0),
        rtol=0.5,
        atol=0,
    )


@pytest.mark.parametrize(
    ("positions", "pairs", "radius"),
    [("none", False, 1.5), ("none", True, 3.0), ("learned", False, 3.0), ("sinusoidal", True, 3.0)],
)
def test_the_ball_without_positions_is_smaller(
    positions: Positions, pairs: bool, radius: float
) -> None:
    layer = NormalizedEmbedding(9, 8, max_length=5, pairs=pairs, positions=positions, norm=1.5)
    assert layer.radius == radius
    out = layer(torch.tensor([[3, 4]]), torch.tensor([[0, 1]]))
    assert float(out.detach().norm(dim=-1).max()) <= radius * (1 + 1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "some"}, "embedding.kind='some'.*expected one of normalized, plain"),
        ({"positions": "some"}, "embedding.positions='some'.*expected one of learned"),
        ({"scale": 0.0}, r"embedding.scale=0.0"),
        ({"frozen": True}, "got embedding.frozen without embedding.vectors"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordEmbedding(**settings)  # type: ignore[arg-type] # wrong on purpose
