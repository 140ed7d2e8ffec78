"""What a certificate depends on, what it refuses, and that it leaves the model alone."""

import copy
import math
from typing import Any

import pytest
import torch

from certify import BOUNDS, Certificates, Certifier, certify, margins, signed_margins
from layers import TransformerClassifier
from layers.attention.bounds import ADDITIVE_BOUNDS
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.encoders import LipschitzBlock
from tests.unit.certify.models import F64, OPTIONS, Tokens, Toy, classifier, olsa, tokens


def rows(certificates: Certificates, index: list[int] | slice) -> list[torch.Tensor]:
    fields = (certificates.margin, certificates.lipschitz, certificates.radius)
    return [field[index] for field in fields]


BOUNDED = [
    (name, bound)
    for name, options in OPTIONS.items()
    for bound in (BOUNDS if options.get("attention") == "l2" else ADDITIVE_BOUNDS)
]


@pytest.mark.parametrize(("name", "bound"), BOUNDED)
def test_the_same_alone_and_in_a_padded_batch(name: str, bound: Any) -> None:
    toy, batch = classifier(2, **OPTIONS[name]), tokens([1, 6, 3, 2])
    together = certify(toy, batch, bound=bound)
    for row, length in enumerate((1, 6, 3, 2)):
        single = Tokens(batch.x[row : row + 1, :length], batch.mask[row : row + 1, :length])
        alone = certify(toy, single, bound=bound)
        assert int(alone.prediction) == int(together.prediction[row])
        for a, b in zip(rows(alone, [0]), rows(together, [row]), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", OPTIONS)
def test_padding_content_does_not_matter(name: str) -> None:
    toy, batch = classifier(2, **OPTIONS[name]), tokens([1, 6, 3])
    filler = 1e6 * torch.randn(batch.x.shape, dtype=F64)
    other = torch.where(batch.mask.unsqueeze(-1), batch.x, filler)
    for a, b in zip(
        rows(certify(toy, batch), slice(None)),
        rows(certify(toy, Tokens(other, batch.mask)), slice(None)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


def test_radius_is_margin_over_lipschitz() -> None:
    toy, batch = classifier(2), tokens([4, 2, 3])
    found = certify(toy, batch)
    torch.testing.assert_close(found.radius, found.margin / found.lipschitz)
    logits = olsa(toy)(batch.x, batch.mask)
    prediction, margin = margins(logits, olsa(toy).head.weight)
    assert torch.equal(found.prediction, prediction)
    torch.testing.assert_close(found.margin, margin.detach())
    assert torch.all(found.margin < margin)  # the allowance for rounding
    assert {found.margin.dtype, found.lipschitz.dtype, found.radius.dtype} == {F64}


def test_bag_of_embeddings_is_exactly_one_lipschitz() -> None:
    found = certify(classifier(0), tokens([4, 2, 3]))
    torch.testing.assert_close(found.lipschitz, torch.ones(3, dtype=F64))


def test_ideal_layers_are_one_lipschitz_and_measured_ones_nearly() -> None:
    """alpha_2 is made for norms of exactly 1: the sound constant exceeds 1 by rounding only."""
    for name in ("plain", "clip", "relu", "feedforward"):
        found = certify(classifier(3, **OPTIONS[name]), tokens([6, 2]))
        assert torch.all((found.lipschitz - 1).abs() < 1e-9)


def test_paper_layers_of_few_tokens_are_not_one_lipschitz_by_our_bound() -> None:
    toy = classifier(1, bound="paper", initial_alpha_1=0.05)
    found = certify(toy, tokens([2, 12]))
    assert float(found.lipschitz[0]) > 1.1
    assert float(found.lipschitz[1]) < 1.0


def test_margins_of_three_classes_by_hand() -> None:
    head = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    logits = torch.tensor([[5.0, 2.0, 1.0]])
    prediction, margin = margins(logits, head)
    assert prediction.tolist() == [0]
    assert margin.tolist() == pytest.approx([min(3 / 5, 4 / 3)])
    signed = signed_margins(logits, torch.tensor([2]), head)
    assert signed.tolist() == pytest.approx([min(-4 / 3, -1 / 4)])
    assert margins(logits, None)[1].tolist() == [3.0]


def test_a_longer_head_gains_nothing() -> None:
    toy, batch = classifier(1), tokens([4, 2, 3])
    before = certify(toy, batch).radius
    with torch.no_grad():
        olsa(toy).head.weight.mul_(1000.0)
    torch.testing.assert_close(certify(toy, batch).radius, before)


# What must never get a positive radius


def test_ties_have_radius_zero() -> None:
    toy = classifier(1)
    with torch.no_grad():
        olsa(toy).head.weight[1] = olsa(toy).head.weight[0]
        olsa(toy).head.weight[2] = -olsa(toy).head.weight[0]
    found = certify(toy, tokens([4, 2, 3, 5, 1]))
    tied = found.prediction != 2
    assert bool(tied.any())
    assert not bool(tied.all())
    assert torch.equal(found.radius > 0, ~tied)


def test_rounding_between_long_and_nearly_equal_rows_is_no_margin() -> None:
    """The logits differ by rounding alone, and dividing by the rows' distance makes that large."""
    toy, batch = classifier(1, classes=2), tokens([4] * 50)
    row = 1e6 * torch.randn(8, dtype=F64)
    nudge = torch.zeros(8, dtype=F64)
    nudge[3] = 1e-9
    with torch.no_grad():
        olsa(toy).head.weight.copy_(torch.stack([row, row + nudge]))
    logits = olsa(toy)(batch.x, batch.mask).detach()
    gap = (logits[:, 0] - logits[:, 1]).abs()
    assert float((gap / 1e-9).max()) > 0.1  # what would have been claimed
    assert certify(toy, batch).radius.tolist() == [0.0] * 50


@pytest.mark.long
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_is_certified_from_weights_that_are_not_finite(bad: float) -> None:
    names = [name for name, _ in classifier(2, **OPTIONS["everything"]).network.named_parameters()]
    for name in names:
        toy = classifier(2, **OPTIONS["everything"])
        with torch.no_grad():
            toy.network.get_parameter(name).view(-1)[0] = bad
        found = certify(toy, tokens([3, 2]))
        certain = found.radius.isfinite()
        assert bool(certain.all()), name
        # A direction or a temperature may survive an infinite entry; a NaN may nowhere.
        if math.isnan(bad):
            assert found.radius.tolist() == [0.0, 0.0], name
        assert torch.all((found.radius == 0) | found.lipschitz.isfinite()), name


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_embeddings_that_are_not_finite_spoil_their_sample_only(bad: float) -> None:
    toy, batch = classifier(2), tokens([3, 2, 3])
    clean = certify(toy, batch).radius
    batch.x[1, 0, 0] = bad
    found = certify(toy, batch).radius
    assert float(found[1]) == 0.0
    torch.testing.assert_close(found[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("raw", [-1000.0, -50.0, 1000.0])
def test_extreme_temperatures(raw: float) -> None:
    """Attention so sharp that its logits may be rounding has no certificate; flat attention has."""
    toy = classifier(1)
    block = olsa(toy).encoder.blocks[0]
    assert isinstance(block, LipschitzBlock)
    with torch.no_grad():
        block.attention.raw_alpha_1.fill_(raw)
    found = certify(toy, tokens([3, 2]))
    assert bool(found.radius.isfinite().all())
    assert bool((found.radius > 0).all()) is (raw > 0)
    assert (found.lipschitz.tolist() == [math.inf, math.inf]) is (raw == -1000.0)


def test_a_network_without_certificate_has_radius_zero() -> None:
    toy, batch = Toy(TransformerClassifier(8, 3, depth=1, heads=2).double().eval()), tokens([3, 2])
    found = certify(toy, batch)
    assert found.lipschitz.tolist() == [math.inf, math.inf]
    assert found.radius.tolist() == [0.0, 0.0]
    assert torch.equal(found.prediction, toy.network(batch.x, batch.mask).argmax(dim=1))


# Refusals


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_refuses_weights_of_reduced_precision(dtype: torch.dtype) -> None:
    toy = classifier(1)
    olsa(toy).head.to(dtype)
    with pytest.raises(ValueError, match="reduced precision") as error:
        Certifier(toy)
    assert str(error.value) == (
        f"got weights of reduced precision (head.weight is {dtype}), expected "
        "float32 or float64: train with precision 32-true or 16/bf16-mixed"
    )


def test_refuses_autocast() -> None:
    toy, batch = Toy(classifier(1).network.float()), tokens([3])
    certifier = Certifier(toy)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(ValueError, match="an active autocast") as error,
    ):
        certifier(Tokens(batch.x.float(), batch.mask))
    assert str(error.value) == (
        "got torch.float32 embeddings or an active autocast, expected full precision: "
        "certify with --trainer.precision 32-true (or 64-true)"
    )
    assert float(certifier(batch).radius) > 0


def test_refuses_embeddings_of_reduced_precision() -> None:
    batch = tokens([3])
    with pytest.raises(ValueError, match=r"got torch\.bfloat16 embeddings"):
        certify(classifier(1), Tokens(batch.x.bfloat16(), batch.mask))


def test_refuses_unknown_bounds() -> None:
    with pytest.raises(ValueError, match="got bound='best', expected one of sound, paper"):
        Certifier(classifier(1), "best")  # type: ignore[arg-type] # what is tested


# Side effects and modes


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_alone(training: bool) -> None:
    toy = Toy(classifier(2, **OPTIONS["everything"], dropout=0.3).network.float())
    toy.network.train(training)
    first = next(toy.network.parameters())
    first.requires_grad_(False)
    before = copy.deepcopy(toy.network.state_dict())
    batch = tokens([3, 2])
    batch = Tokens(batch.x.float(), batch.mask)
    radius = certify(toy, batch).radius
    after = toy.network.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(part.training is training for part in toy.network.modules())
    assert [p.requires_grad for p in toy.network.parameters()][:2] == [False, True]
    assert all(p.grad is None and p.dtype == torch.float32 for p in toy.network.parameters())
    # Dropout and mode play no part: the certificate is about evaluation.
    assert torch.equal(certify(Toy(toy.network.eval()), batch).radius, radius)
    toy.network.train()
    toy.network(batch.x, batch.mask).sum().backward()
    assert toy.network.get_parameter("head.weight").grad is not None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_works_in_every_gradient_mode(mode: Any) -> None:
    toy, batch = classifier(2), tokens([3, 2])
    expected = certify(toy, batch)
    with mode():
        certifier = Certifier(toy)
        inside = certifier(batch)
    for found in (inside, certifier(batch)):
        assert torch.equal(found.radius, expected.radius)
        assert not found.radius.requires_grad
    toy.network(batch.x, batch.mask).sum().backward()  # caches made inside do no harm


def test_certifies_the_matrices_in_use() -> None:
    """Orthogonalising again in float64 would give others than the deployed float32 ones."""
    toy, batch = Toy(classifier(1, orthogonal="newton_schulz").network.float()), tokens([3])
    certifier = Certifier(toy)
    assert certifier.network is not None
    layers = [
        (block.attention, twin.attention)
        for block, twin in zip(
            olsa(toy).encoder.blocks, certifier.network.encoder.blocks, strict=True
        )
        if isinstance(block, LipschitzBlock) and isinstance(twin, LipschitzBlock)
    ]
    attentions = [
        (one, other)
        for one, other in layers
        if isinstance(one, OneLipschitzSelfAttention)
        and isinstance(other, OneLipschitzSelfAttention)
    ]
    assert len(attentions) == 1
    for layer, twin in attentions:
        assert torch.equal(layer.value.weight().to(F64), twin.value.weight())
        assert torch.equal(layer.query_key.weight().to(F64), twin.query_key.weight())
    assert float(certifier(batch).lipschitz) != 1.0  # their rounding is measured
