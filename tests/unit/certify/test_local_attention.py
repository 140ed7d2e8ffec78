"""Constants of attention around a text: never below what ascent finds, and not far above it."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from certify import around_text, certify
from certify.certificate import in_float64
from certify.lipschitz import EncoderBound, encoder_bound, measure
from certify.local_attention import AttentionAround
from layers.attention.bounds import attention_bound, mixing_norm
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from tests.unit.certify.models import F64, OPTIONS, RADIUS, classifier, olsa, tokens

LENGTHS = [1, 2, 3, 5, 5, 8]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "soft": {"initial_alpha_1": 4.0},
    "sharp": {"initial_alpha_1": 0.1},
    "relu": {"activation": "relu"},
    "clip": OPTIONS["clip"],
    "offsets": OPTIONS["offsets-clip"],
}


class Layer(NamedTuple):
    attention: OneLipschitzSelfAttention
    around: AttentionAround
    x: Tensor
    mask: Tensor
    radius: Tensor
    everywhere: Tensor

    def moved(self, step: Tensor) -> Tensor:
        """`[B]`: how far the output moves, before the scaling."""
        lengths = self.mask.sum(dim=1).to(F64)
        before, after = (
            self.attention(x, self.mask, self.radius)[0] for x in (self.x, self.x + step)
        )
        scale = self.attention.alpha_2(lengths, self.radius)
        found: Tensor = (after - before).flatten(1).norm(dim=1) * scale
        return found


def layer(seed: int = 0, **options: Any) -> Layer:
    network = in_float64(olsa(classifier(1, seed=seed, **options)))
    attention = network.encoder.blocks[0].get_submodule("attention")
    assert isinstance(attention, OneLipschitzSelfAttention)
    norms = measure(network)[0].attention
    batch = tokens(LENGTHS, seed=seed, outside=1.0)
    x = batch.x.masked_fill(~batch.mask.unsqueeze(-1), 0.0)
    radius = torch.full((len(LENGTHS),), RADIUS, dtype=F64)
    weighed = attention.weigh(x, batch.mask, radius)
    around = AttentionAround(attention, norms, batch.mask, weighed)
    values = attention.value_radius(radius)
    lengths = batch.mask.sum(dim=1).to(F64)
    everywhere = attention_bound(
        attention.alpha_1, lengths, radius=radius, value_radius=values, norms=norms
    )
    return Layer(attention, around, x, batch.mask, radius, everywhere)


def theorem(given: Layer, sample: int, distance: float) -> float:
    """L(t) of Theorem 5 for one text, number by number as docs/certificates.md has it."""
    attention, norms, length = given.attention, given.around.norms, LENGTHS[sample]
    value, logits, weights = (
        part[sample, :, :length] for part in attention.weigh(given.x, given.mask, given.radius)
    )
    kappa, w, s_q, s_k, s_v, alpha_1 = (
        float(number)
        for number in (
            norms.kappa, norms.score, norms.query, norms.key, norms.value, attention.alpha_1,
        )
    )  # fmt: skip
    o = root_v = root_p = 0.0
    keys = []
    heads = value[attention.offset_heads :], logits[..., :length], weights[..., :length]
    for v, s, p in zip(*heads, strict=True):
        apart = (v - (p @ v).unsqueeze(1)).square().sum(dim=-1)
        variances, largest_p = (p * apart).sum(dim=1), p.amax(dim=1)
        o = max(o, float((s.amax(dim=1) - s.amin(dim=1)).amax()))
        root_v = max(root_v, float(variances.amax().sqrt()))
        root_p = max(root_p, float(largest_p.amax().sqrt()))
        columns = (largest_p.unsqueeze(1) * p).sum(dim=0).amax()
        keys.append((float((largest_p * variances).sum().sqrt()), float(columns.sqrt())))
    d = math.hypot(2 * kappa * s_q + w * s_k, w * s_k) / (2 * alpha_1)

    def q(t: float) -> float:
        return math.exp(d * t / 2) * (root_v + s_v * t * root_p)

    def k(t: float) -> float:
        return math.exp(d * t) * max(s + s_v * t * c for s, c in keys)

    mixing = float(mixing_norm(torch.tensor(o + d * distance), torch.tensor(float(length))))
    of_queries = kappa * s_q * (q(0) + q(distance))
    of_keys = w * s_k * (k(0) + k(distance))
    return s_v * mixing + (of_queries + of_keys) / (4 * alpha_1)


@pytest.mark.parametrize("kind", ["plain", "soft", "relu", "clip", "offsets"])
@pytest.mark.parametrize("distance", [0.0, 0.3, 1.5])
def test_constants_are_those_of_the_theorem(kind: str, distance: float) -> None:
    given = layer(**KINDS[kind])
    reach = torch.full_like(given.radius, distance)
    expected = [theorem(given, sample, distance) for sample in range(len(LENGTHS))]
    found = given.around.gain(reach, given.radius)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=F64), rtol=1e-6, atol=0)


def largest(given: Layer, distance: Tensor, *, starts: int = 4, steps: int = 40) -> Tensor:
    """`[B]`: the most that ascent moves the output, in units of the step."""
    generator, best = torch.Generator().manual_seed(1), torch.zeros(len(LENGTHS), dtype=F64)
    for _ in range(starts):
        step = torch.randn(given.x.shape, generator=generator, dtype=F64)
        for _ in range(steps):
            step = step * given.mask.unsqueeze(-1)
            step = step / _sizes(step) * distance.view(-1, 1, 1)
            step.requires_grad_()
            found = given.moved(step) / distance
            best = torch.maximum(best, found.detach())
            (slope,) = torch.autograd.grad(found.sum(), step)
            step = step.detach() + 0.5 * slope / _sizes(slope) * distance.view(-1, 1, 1)
    return best


def _sizes(values: Tensor) -> Tensor:
    found: Tensor = values.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, 1, 1)
    return found


@pytest.mark.long
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "distance", [*(pytest.param(size, marks=pytest.mark.slow) for size in (1e-3, 0.3)), 1.5]
)
def test_no_step_moves_the_output_more(kind: str, distance: float) -> None:
    given, reach = layer(**KINDS[kind]), torch.full((len(LENGTHS),), distance, dtype=F64)
    gain = torch.minimum(given.around.gain(reach, given.radius), given.everywhere)
    found = largest(given, reach)
    assert bool((found <= gain * (1 + 1e-9)).all())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "share"), [("soft", 0.85), ("offsets", 0.6), ("plain", 0.55)])
def test_the_bound_is_not_far_above_what_ascent_finds(kind: str, share: float) -> None:
    """So a soft layer's constant that is 15 % too small would be noticed, whatever the reason."""
    given, reach = layer(**KINDS[kind]), torch.full((len(LENGTHS),), 1e-3, dtype=F64)
    found = largest(given, reach) / given.around.gain(reach, given.radius)
    assert float(found.amin()) > share


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "relu"])
def test_logits_of_a_row_drift_apart_no_faster(kind: str) -> None:
    """Ascent on all differences of two logits of a row: D is nearly reached."""
    given = layer(**KINDS[kind])
    network_norms = given.around.norms
    asked = float(network_norms.kappa * network_norms.query)
    answered = float(network_norms.score * network_norms.key)
    most = ((2 * asked + answered) ** 2 + answered**2) ** 0.5 / float(2 * given.attention.alpha_1)

    def logits(x: Tensor) -> Tensor:
        query, key = (
            given.attention.split_heads(part)
            for part in given.attention.query_key(x).chunk(2, dim=-1)
        )
        pairs = (query.unsqueeze(-2) + key.unsqueeze(-3)) / 2
        weight = given.attention.score_weight()[:, None, None, :]
        if kind == "relu":
            hidden = pairs.relu()
        else:
            high = torch.maximum(pairs[..., 0::2], pairs[..., 1::2])
            low = torch.minimum(pairs[..., 0::2], pairs[..., 1::2])
            hidden = torch.stack((high, low), dim=-1).flatten(-2)
        return (hidden * weight).sum(dim=-1) / given.attention.alpha_1

    x = given.x[-1:]
    before = logits(x)
    generator, best = torch.Generator().manual_seed(2), 0.0
    for row, first, second in ((0, 1, 2), (0, 0, 1), (1, 0, 2), (3, 4, 3)):
        for head in range(2):
            step = torch.randn(x.shape, generator=generator, dtype=F64)
            for _ in range(60):
                step = (step / step.norm()).requires_grad_()
                change = (logits(x + step) - before)[0, head, row]
                found = change[first] - change[second]
                best = max(best, float(found.detach().abs()))
                (slope,) = torch.autograd.grad(found, step)
                step = step.detach() + 0.3 * slope
    assert 0.5 * most < best <= most


def test_a_larger_ball_has_no_smaller_constant() -> None:
    given = layer(**KINDS["offsets"])
    distances = torch.linspace(0.0, 3.0, 13, dtype=F64)
    gains = torch.stack(
        [given.around.gain(one.expand(len(LENGTHS)), given.radius) for one in distances]
    )
    assert bool((gains.diff(dim=0) >= 0).all())


def test_rounding_that_is_not_covered_proves_nothing() -> None:
    given = layer(initial_alpha_1=1e-8)
    reach = torch.zeros(len(LENGTHS), dtype=F64)
    assert bool(given.around.gain(reach, given.radius).isinf().all())


def test_without_a_feed_forward_map_attention_alone_gains() -> None:
    batch = tokens(LENGTHS)
    toy = classifier(2, **KINDS["soft"])
    toy.network.eval().requires_grad_(requires_grad=False)
    whole, local = certify(toy, batch), certify(toy, batch, "local")
    assert float((local.radius / whole.radius).amax()) > 1.02
    assert bool((local.radius >= whole.radius).all())
    torch.testing.assert_close(local.margin / local.lipschitz, local.radius)


def test_constants_of_a_ball_prove_nothing_outside_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times smaller constants, up to twice the radius: a radius within the ball is proven."""
    batch, toy = tokens(LENGTHS), classifier(2, **KINDS["soft"])
    toy.network.eval().requires_grad_(requires_grad=False)
    whole = certify(toy, batch).radius

    def steps(*args: Any, around: Any, **options: Any) -> EncoderBound:
        everywhere = encoder_bound(*args, **options)
        factor = torch.where(around.distance > 2 * whole, 1.0, 0.1)
        return everywhere._replace(lipschitz=everywhere.lipschitz * factor)

    monkeypatch.setattr(around_text, "encoder_bound", steps)
    local = certify(toy, batch, "local").radius
    assert bool(((1.5 * whole < local) & (local <= 2 * whole)).all())


class Softmaxes(TorchFunctionMode):
    """Counts the softmaxes of a pass."""

    count = 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        self.count += function in (torch.Tensor.softmax, torch.softmax, functional.softmax)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("depth", [1, 3])
def test_attention_weights_are_computed_once(depth: int) -> None:
    toy = classifier(depth, **KINDS["soft"])
    toy.network.eval().requires_grad_(requires_grad=False)
    with Softmaxes() as softmaxes:
        certify(toy, tokens(LENGTHS), "local")
    assert softmaxes.count == depth


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_weights_of_the_pass_give_the_same_output(options: dict[str, Any]) -> None:
    given = layer(**options)
    seen = given.attention.weigh(given.x, given.mask, given.radius)
    output, _ = given.attention(given.x, given.mask, given.radius)
    assert torch.equal(given.attention(given.x, given.mask, given.radius, seen)[0], output)
