"""Local radii hold under attack, are never shorter than the global ones, and often longer."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attacks import PGD
from certify import Certifier, certificate, certify, last_feedforward
from certify.certificate import in_float64
from certify.last_feedforward import LastFeedForward
from certify.lipschitz import EncoderBound, encoder_bound
from layers import OrthogonalLinear
from tests.unit.certify.models import F64, OPTIONS, Toy, classifier, olsa, tokens, train

LENGTHS = [1, 2, 3, 4, 5, 5, 2, 4]
NORMED: dict[str, Any] = {"feedforward": True, "mean_norm": True, "head_bias": True}


def trained(depth: int, steps: int = 25, **options: Any) -> Toy:
    toy, batch = classifier(depth, **options), tokens(LENGTHS, seed=depth)
    train(toy, batch, torch.arange(len(LENGTHS)) % 3, steps=steps)
    toy.network.eval().requires_grad_(requires_grad=False)
    return toy


@pytest.mark.long
@pytest.mark.parametrize(
    ("depth", "options"),
    [
        (1, {"feedforward": True}),
        (1, {"feedforward": True, "offset_heads": 1, "value_clip": 0.9}),
        (2, NORMED),
        (1, {"feedforward": True, "attention": "l2"}),
    ],
)
def test_attacks_inside_the_local_radius_fail(depth: int, options: dict[str, Any]) -> None:
    toy, batch = trained(depth, **options), tokens(LENGTHS, seed=depth)
    whole, local = certify(toy, batch), certify(toy, batch, "local")
    assert local.bound == "local"
    assert torch.equal(local.prediction, whole.prediction)
    assert bool((local.radius >= whole.radius).all())
    assert float((local.radius / whole.radius).median()) > 1.02
    torch.testing.assert_close(local.margin / local.lipschitz, local.radius)
    attack = PGD(steps=10, restarts=2)
    for factor, found in ((0.999, False), (30.0, True)):
        _, flipped = attack(
            toy.network,
            batch.x,
            batch.mask,
            local.prediction,
            epsilon=factor * local.radius,
            seeds=list(range(len(LENGTHS))),
        )
        assert bool(flipped.any()) is found


def logits_behind(toy: Toy, inputs: Tensor, mask: Tensor) -> Tensor:
    """`[B, C]` logits from the inputs of the last feed-forward map on."""
    block, network = olsa(toy).encoder.blocks[-1], olsa(toy)
    x = (inputs + block.get_submodule("feedforward")(inputs)) / 2 * mask.unsqueeze(-1)
    if (norm := getattr(block, "norm", None)) is not None:
        x, _ = norm(x, mask, mask.sum(dim=1))
    logits: Tensor = network.head(x.sum(dim=1) / mask.sum(dim=1, keepdim=True).sqrt())
    return logits


@pytest.mark.long
@pytest.mark.parametrize("options", [{"feedforward": True}, NORMED])
@pytest.mark.parametrize("stretched", [1.0, 1.001])
def test_no_lead_falls_within_the_distance_but_soon_after(
    options: dict[str, Any], stretched: float
) -> None:
    """Descent on the inputs of the last map alone, with and without orthogonal weights."""
    toy = Toy(in_float64(olsa(classifier(1, classes=2, seed=3, **options))))
    block = olsa(toy).encoder.blocks[0]
    layer = block.get_submodule("feedforward").get_submodule("inner")
    assert isinstance(layer, OrthogonalLinear)
    layer.fix(stretched * layer.weight())
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 4, 8, generator=generator, dtype=F64)
    mask = torch.arange(4) <= torch.arange(12).remainder(4).unsqueeze(1)
    x = x * mask.unsqueeze(-1)
    logits = logits_behind(toy, x, mask)
    labels = logits.argmax(dim=1)
    leads = logits.gather(1, labels.unsqueeze(1)) - logits
    reach = LastFeedForward(olsa(toy)).distance(x, mask, labels, leads).view(-1, 1, 1)
    assert bool((reach > 0).all())

    def least(factor: float) -> Tensor:
        best = torch.full((12,), torch.inf, dtype=F64)
        for _ in range(4):
            step = torch.randn(x.shape, generator=generator, dtype=F64) * mask.unsqueeze(-1)
            for _ in range(40):
                step = step / _sizes(step) * factor * reach
                step.requires_grad_()
                both = logits_behind(toy, x + step, mask)
                found = (both[:, 0] - both[:, 1]) * (1 - 2 * labels)
                best = torch.minimum(best, found.detach())
                (slope,) = torch.autograd.grad(found.sum(), step)
                step = step.detach() - 0.3 * slope / _sizes(slope) * reach
        return best

    assert bool((least(0.9999) > 0).all())
    if stretched == 1:
        assert float((least(1.1) <= 0).double().mean()) > 0.8


def _sizes(values: Tensor) -> Tensor:
    found: Tensor = values.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, 1, 1)
    return found


@pytest.mark.parametrize(
    ("changed", "factor"), [("lipschitz_before", 4.0), ("rounding_before", torch.inf)]
)
def test_the_distance_is_that_of_the_inputs_of_the_map(
    changed: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers in front of the map may stretch a move and round its inputs: then it helps less."""
    toy = trained(1, feedforward=True, attention="l2")
    batch = tokens(LENGTHS, seed=1)
    whole, local = certify(toy, batch).radius, certify(toy, batch, "local").radius
    assert bool((local > whole).any())

    def stretched(*args: Any, **options: Any) -> EncoderBound:
        bound = encoder_bound(*args, **options)
        return bound._replace(**{changed: getattr(bound, changed) * factor})

    monkeypatch.setattr(certificate, "encoder_bound", stretched)
    assert bool((local < 4 * whole).all())
    torch.testing.assert_close(certify(toy, batch, "local").radius, whole)


@pytest.mark.parametrize(
    ("changed", "value", "kept"),
    [("norm", 4.0, 0.25), ("defect", 2.0, 0.0), ("gain", 1e6, 0.0), ("gain", 1e3, 1.0)],
)
def test_a_longer_map_holds_less(changed: str, value: float, kept: float) -> None:
    """Of a map that is not orthogonal, or whose rounding nothing covers."""
    network = in_float64(olsa(classifier(1, classes=2, feedforward=True)))
    last, batch = LastFeedForward(network), tokens(LENGTHS)
    labels, leads = torch.zeros(len(LENGTHS)).long(), torch.full((len(LENGTHS), 2), 0.1, dtype=F64)
    before = last.distance(batch.x, batch.mask, labels, leads)
    assert bool((before > 0).all())
    setattr(last, changed, torch.tensor(value, dtype=F64))
    after = last.distance(batch.x, batch.mask, labels, leads)
    torch.testing.assert_close(after, kept * before, rtol=1e-6, atol=0)
    # As long as the rounding of the pairs, times the gain, takes the lead away.
    assert bool((last.distance(batch.x, batch.mask, labels, leads * 1e-11) == 0).all()) == (
        changed == "gain" or kept == 0
    )


def test_no_distance_is_claimed_beyond_the_one_that_is_allowed_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = in_float64(olsa(classifier(1, classes=2, feedforward=True)))
    last, batch = LastFeedForward(network), tokens(LENGTHS)
    labels, leads = torch.zeros(len(LENGTHS)).long(), torch.full((len(LENGTHS), 2), 0.1, dtype=F64)
    size = (network.head.weight[0] - network.head.weight[1]).norm()
    assert bool((last.distance(batch.x, batch.mask, labels, leads) > 0.5 * 0.1 / size).all())
    monkeypatch.setattr(last_feedforward, "FARTHEST", 0.5)
    found = last.distance(batch.x, batch.mask, labels, leads)
    torch.testing.assert_close(found, torch.full_like(found, float(0.5 * 0.1 / size)))


def test_without_anything_local_the_bound_is_the_sound_one() -> None:
    for depth, options in ((0, {}), (1, OPTIONS["distance"])):
        toy, batch = trained(depth, steps=0, **options), tokens(LENGTHS)
        whole, local = certify(toy, batch), certify(toy, batch, "local")
        assert torch.equal(local.radius, whole.radius)


@pytest.mark.long
def test_local_radii_do_not_depend_on_the_batch() -> None:
    toy, batch = trained(1, steps=5, feedforward=True), tokens(LENGTHS, seed=1)
    certifier = Certifier(toy, "local")
    together = certifier(batch).radius
    for row, length in enumerate(LENGTHS):
        one = batch._replace(
            x=batch.x[row : row + 1, :length], mask=batch.mask[row : row + 1, :length]
        )
        torch.testing.assert_close(certifier(one).radius[0], together[row])


@pytest.mark.long
def test_a_lead_that_turns_late_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the kinks the distance would be too long: descent finds a lead that falls."""
    monkeypatch.setattr(Tensor, "clamp_min", _nothing_kept(Tensor.clamp_min))
    with pytest.raises(AssertionError):
        test_no_lead_falls_within_the_distance_but_soon_after({"feedforward": True}, 1.0)


def _nothing_kept(clamp: Any) -> Any:
    def zeros(values: Tensor, least: Any) -> Tensor:
        found: Tensor = clamp(values, least)
        # The kinks are the only `[B, d / 2]` that are clamped.
        return torch.zeros_like(found) if found.shape == (12, 4) else found

    return zeros
