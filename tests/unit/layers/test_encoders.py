"""Encoders: their formulas, their promise, and what they log."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from layers import LipschitzClassifier, TransformerClassifier, olsa_classifier, project_to_ball
from layers.encoders import LipschitzBlock, MeanOnlyNorm, OLSALayers, OrthogonalFeedForward

F64 = torch.float64
OPTIONS: dict[str, dict[str, Any]] = {
    "no layer": {"depth": 0},
    "1": {"depth": 1},
    "3": {"depth": 3},
    "3, feed-forward": {"depth": 3, "feedforward": True},
    "2, mean norm": {"depth": 2, "mean_norm": True},
    "2, all": {
        "depth": 2,
        "feedforward": True,
        "value_clip": 0.8,
        "offset_heads": 1,
        "mean_norm": True,
        "head_bias": True,
    },
    "2, relu": {"depth": 2, "activation": "relu", "offset_heads": 2},
}


def make(**options: Any) -> LipschitzClassifier:
    torch.manual_seed(0)
    settings = {"depth": 1, "heads": 4, "radius": 2.0, "initial_alpha_1": 1.0, **options}
    names = {field.name for field in fields(OLSALayers)}
    layers = OLSALayers(**{name: settings.pop(name) for name in names & settings.keys()})
    network = olsa_classifier(8, 3, layers=layers, **settings)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "bias" in name:
                parameter.normal_(std=0.1)
    return network.double().eval()


def batch(lengths: list[int], seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(len(lengths), max(lengths), 8, generator=generator, dtype=F64)
    return x, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@torch.no_grad()
def test_no_layer_is_the_bag_of_embeddings() -> None:
    network = make(depth=0)
    x, mask = batch([5, 2, 1])
    out = network(x, mask)
    for row, length in enumerate([5, 2, 1]):
        inside = project_to_ball(x[row, :length], 2.0)
        torch.testing.assert_close(out[row], network.head(inside.sum(dim=0) / length**0.5))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@settings(max_examples=10)
@given(st.integers(1, 5), st.floats(0.1, 3.0), st.integers(0, 2**32 - 1))
def test_one_lipschitz(options: dict[str, Any], length: int, scale: float, seed: int) -> None:
    encoder = make(**options).encoder
    x, mask = batch([length], seed, scale)
    jacobian = torch.func.jacrev(lambda t: encoder(t, mask))(x)
    norm = torch.linalg.matrix_norm(jacobian.reshape(8, 8 * length), 2)
    assert float(norm.detach()) <= 1 + 1e-9


@torch.no_grad()
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_radii_handed_on_bound_the_tokens(options: dict[str, Any]) -> None:
    network = make(**options)
    seen: list[tuple[Tensor, Tensor]] = []
    for block in network.encoder.blocks:
        block.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
    x, mask = batch([5, 3, 1], scale=2.0)
    network(x, mask)
    assert len(seen) == len(network.encoder.blocks)
    for tokens, radius in seen:
        assert bool((tokens.norm(dim=-1).amax(dim=1) <= radius * (1 + 1e-9)).all())
        assert not bool(tokens[~mask].any())


@torch.no_grad()
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_logged_temperatures_are_those_used(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = make(**options)
    used: list[Tensor] = []
    for block in network.encoder.blocks:
        assert isinstance(block, LipschitzBlock)

        def spy(*args: Tensor, original: Any = block.attention.alpha_2) -> Tensor:
            value: Tensor = original(*args)
            used.append(value.mean())
            return value

        monkeypatch.setattr(block.attention, "alpha_2", spy)
    x, mask = batch([5, 3, 1])
    network(x, mask)
    monkeypatch.undo()
    logged = network.encoder.temperatures(mask.sum(dim=1))
    assert len(logged) == len(used)
    for (alpha_1, alpha_2), expected in zip(logged, used, strict=True):
        assert float(alpha_1) == pytest.approx(1.0)
        assert float(alpha_2) == pytest.approx(float(expected), rel=1e-6)


def test_feed_forward_keeps_norms() -> None:
    torch.manual_seed(0)
    layer = OrthogonalFeedForward(8).double()
    x = torch.randn(4, 3, 8, dtype=F64)
    torch.testing.assert_close(layer(x).norm(dim=-1), x.norm(dim=-1))
    assert not bool(layer(torch.zeros(2, 8, dtype=F64)).any())


def test_mean_only_norm() -> None:
    layer = MeanOnlyNorm(4)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([3.0, 0.0, 4.0, 0.0]))
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True] * 3, [True, False, False]])
    out, radius = layer(x, mask, torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(out[0], x[0] - x[0].mean(dim=-1, keepdim=True) + layer.bias)
    assert not bool(out[1, 1:].any())
    assert radius.tolist() == [6.0, 7.0]


def test_dropout_is_for_training() -> None:
    network = make(depth=1, dropout=0.5, feedforward=True)
    x, mask = batch([5, 3])
    assert torch.equal(network(x, mask), network(x, mask))
    network.train()
    assert not torch.equal(network(x, mask), network(x, mask))


@torch.no_grad()
def test_transformer_pools_real_tokens() -> None:
    torch.manual_seed(0)
    mean = TransformerClassifier(8, 3, depth=2, heads=2).double().eval()
    first = TransformerClassifier(8, 3, depth=2, heads=2, pooling="first").double().eval()
    first.load_state_dict(mean.state_dict())
    x, mask = batch([5, 3, 1])
    for model in (mean, first):
        together = model(x, mask)
        for row, length in enumerate([5, 3, 1]):
            alone = model(x[row : row + 1, :length], mask[row : row + 1, :length])
            torch.testing.assert_close(together[row : row + 1], alone)
    torch.testing.assert_close(mean(x, mask)[2], first(x, mask)[2])  # one token: the same
    assert not torch.allclose(mean(x, mask)[0], first(x, mask)[0])


@pytest.mark.parametrize("radius", [0.0, -1.0, float("inf"), float("nan")])
def test_radius_is_positive(radius: float) -> None:
    with pytest.raises(ValueError, match="expected a positive number"):
        make(radius=radius)
