"""Constants of encoders follow the pass: its radii, the growth of its tokens, its rounding."""

from typing import Any

import pytest
import torch
from torch import Tensor

from certify import Certifier
from certify.lipschitz import BlockNorms, _attention, encoder_bound, measure, rounding_of_sums
from layers.attention.bounds import AttentionNorms
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.encoders import LipschitzBlock
from tests.unit.certify.models import F64, OPTIONS, RADIUS, classifier, olsa, tokens

LENGTHS = torch.tensor([1.0, 2.0, 5.0, 40.0], dtype=F64)


def attentions(name: str) -> list[Any]:
    blocks = olsa(classifier(3, **OPTIONS[name])).encoder.blocks
    return [block.attention for block in blocks if isinstance(block, LipschitzBlock)]


@pytest.mark.parametrize("name", OPTIONS)
def test_tokens_of_ideal_weights_grow_as_in_the_pass(name: str) -> None:
    for attention, radius in zip(attentions(name), (0.1, 0.5, 2.0), strict=True):
        size = torch.full_like(LENGTHS, radius)
        _, mixed = _attention(
            attention, AttentionNorms(), LENGTHS, used=size, proven=size, bound="sound"
        )
        torch.testing.assert_close(mixed, size * attention.growth(LENGTHS, size))


@pytest.mark.parametrize("name", OPTIONS)
def test_the_scales_are_those_of_the_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    radii: list[Tensor] = []
    for kind in (OneLipschitzSelfAttention, OneLipschitzL2Attention):

        def spied(self: Any, lengths: Tensor, radius: Tensor, own: Any = kind.alpha_2) -> Tensor:
            radii.append(radius)
            scale: Tensor = own(self, lengths, radius)
            return scale

        monkeypatch.setattr(kind, "alpha_2", spied)
    network, batch = olsa(classifier(3, **OPTIONS[name])), tokens([1, 3, 5])
    network(batch.x, batch.mask)
    passed = [radius.expand(3) for radius in radii]
    radii.clear()
    encoder_bound(network, measure(network), batch.mask.sum(dim=1).to(F64), bound="sound")
    assert len(passed) == len(radii) == 3
    for one, other in zip(passed, radii, strict=True):
        torch.testing.assert_close(one, other)


def test_a_longer_feedforward_map_moves_and_grows_more() -> None:
    network = olsa(classifier(1, feedforward=True))
    (norms,) = measure(network)
    ideal, longer = (
        encoder_bound(
            network,
            [BlockNorms(norms.attention, torch.tensor(size, dtype=F64))],
            LENGTHS,
            bound="sound",
        )
        for size in (1.0, 3.0)
    )
    # The block is the mean of the identity and the map.
    torch.testing.assert_close(longer.lipschitz, 2 * ideal.lipschitz)
    torch.testing.assert_close(longer.norm, 2 * ideal.norm)
    torch.testing.assert_close(longer.lipschitz_before, ideal.lipschitz_before)
    values = [BlockNorms(norms.attention._replace(value=torch.tensor(3.0)), norms.feedforward)]
    before = encoder_bound(network, values, LENGTHS, bound="sound").lipschitz_before
    assert bool((before > 1.2 * ideal.lipschitz_before).all())


def test_each_map_rounds() -> None:
    network = olsa(classifier(1, feedforward=True))
    width = network.head.in_features
    bound = encoder_bound(network, measure(network), LENGTHS, bound="sound")
    gamma = rounding_of_sums(width, LENGTHS)
    # The ball projection and attention; then the map, and the pooling.
    assert bool((bound.rounding_before > 16 * gamma * RADIUS * LENGTHS.sqrt()).all())
    of_map = bound.rounding - bound.rounding_before - 2 * gamma * bound.norm
    assert bool((of_map > 3.9 * gamma * width**0.5 * bound.norm).all())
    # Sharp attention: the logits of a row may be nothing but rounding.
    sharp = olsa(classifier(1, initial_alpha_1=1e-3))
    assert bool(encoder_bound(sharp, measure(sharp), LENGTHS, bound="sound").rounding.isinf().all())


def test_a_large_bias_is_rounded() -> None:
    toy, batch = classifier(1, head_bias=True), tokens([2, 4])
    bias = olsa(toy).head.bias
    assert bias is not None
    with torch.no_grad():
        bias.zero_()
        small = Certifier(toy)(batch)
        bias.fill_(1e10)
        large = Certifier(toy)(batch)
    terms = olsa(toy).head.in_features + batch.mask.sum(dim=1)
    rounding = 4 * terms * 1e10 * torch.finfo(F64).eps / 2
    longest = (olsa(toy).head.weight[:, None] - olsa(toy).head.weight).norm(dim=-1).amax()
    assert bool((large.margin < small.margin - rounding / longest).all())
