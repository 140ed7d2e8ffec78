"""Certificates speak of the float64 pass: what it rounds, and that predictions come from it."""

from typing import Any

import pytest
import torch

from certify import Certifier, certify
from certify.lipschitz import encoder_bound
from tests.unit.certify.models import F64, OPTIONS, RADIUS, Tokens, Toy, classifier, olsa, train
from tests.unit.certify.models import tokens as some_tokens
from tests.unit.certify.test_soundness import lightning_module
from text import Text

JUST_INSIDE = (0.9999, 1 - 1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("width", [8, 64])
def test_the_bound_on_rounding_covers_a_pass(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of float32, whose error can be measured: the same bound with the unit of float32."""
    toy = Toy(classifier(2, **OPTIONS[name], width=width).network.float())
    batch = some_tokens([1, 5, 40, 40], width=width)
    x, lengths = batch.x.float(), batch.mask.sum(dim=1).double()
    certifier = Certifier(toy)
    assert certifier.network is not None
    exact = certifier.network.encoder(x.double(), batch.mask)
    monkeypatch.setattr("certify.lipschitz.UNIT", torch.finfo(torch.float32).eps / 2)
    bound = encoder_bound(certifier.network, certifier.norms, lengths, bound="sound")
    error = (olsa(toy).encoder(x, batch.mask).double() - exact).norm(dim=1)
    assert bool((error > 0).any())
    assert bool((error <= bound.rounding).all())
    assert bool((exact.norm(dim=1) <= bound.norm).all())


def worst(certifier: Certifier, batch: Tokens, prediction: torch.Tensor) -> torch.Tensor:
    """Directions of unit length in which the smallest difference of logits falls fastest."""
    x = batch.x.double().requires_grad_()
    logits = certifier.classify(x, batch.mask)
    chosen = logits.gather(1, prediction[:, None]).squeeze(1)
    others = logits.scatter(1, prediction[:, None], -torch.inf)
    (gradient,) = torch.autograd.grad((others.amax(dim=1) - chosen).sum(), x)
    length: torch.Tensor = gradient.norm(dim=(1, 2), keepdim=True)
    return gradient / length


@pytest.mark.parametrize("depth", [0, 1])
def test_nothing_flips_just_inside_the_radius(depth: int) -> None:
    """Thousands of points as users have them: float32 weights and embeddings."""
    toy = classifier(depth, classes=2, initial_alpha_1=16.0)
    batch = some_tokens([1, 3, 5, 8] * 1000, outside=0.5)
    train(toy, Tokens(batch.x[:64], batch.mask[:64]), torch.arange(64) % 2, steps=10)
    toy = Toy(toy.network.float())
    batch = Tokens(batch.x.float(), batch.mask)
    certifier = Certifier(toy)
    found = certifier(batch)
    direction = worst(certifier, batch, found.prediction)

    def flipped(factor: float) -> int:
        step = (factor * found.radius)[:, None, None] * direction
        moved = certifier.classify(batch.x.double() + step, batch.mask).argmax(dim=1)
        return int((moved != found.prediction).sum())

    assert float(found.radius.min()) < 1e-3 < float(found.radius.max())
    assert [flipped(factor) for factor in JUST_INSIDE] == [0, 0]
    # It is an attack: without attention the certificate is exact.
    assert flipped(1 + 1e-6 if depth == 0 else 3.0) > 3900


def close_rows(module: Any) -> None:
    """A head whose two logits differ by no more than float32 rounds."""
    with torch.no_grad():
        head = module.network.head.weight
        head[1] = head[0] + 1e-7 * torch.randn(head.shape[1])


@pytest.mark.parametrize("name", ["single", "bag"])
def test_predictions_are_those_of_the_certificates(name: str) -> None:
    module, _ = lightning_module(name)
    module.eval()
    close_rows(module)
    generator = torch.Generator().manual_seed(0)
    texts: list[Text] = [
        " ".join("abc"[i] for i in torch.randint(3, (1 + row % 9,), generator=generator))
        for row in range(600)
    ]
    batch = module.encode_texts(texts)
    certified = certify(module, batch).prediction
    assert torch.equal(module.predict_texts(texts).argmax(dim=1), certified)
    assert torch.equal(module.predict_step(batch, 0)["prediction"], certified)
    assert not torch.equal(module(batch).argmax(dim=1), certified)  # what float32 makes of it


def test_texts_are_certified() -> None:
    module, texts = lightning_module("single")
    expected = certify(module, module.encode_texts(texts))
    for mode in (True, False):
        found = certify(module.train(mode), texts)
        assert torch.equal(found.radius, expected.radius)
        assert all(part.training is mode for part in module.modules())
    one = certify(module, texts[0])
    torch.testing.assert_close(one.radius, expected.radius[:1], rtol=0, atol=1e-12)
    for wrong in (None, 3, [texts[0], None], ("a", "b")):
        with pytest.raises(ValueError, match="expected a string for each text"):
            certify(module, wrong)


def test_texts_need_something_that_encodes_them() -> None:
    with pytest.raises(ValueError, match="got a list to certify with Toy, which encodes no texts"):
        certify(classifier(1), ["a b"])


@pytest.mark.parametrize("size", [1e99, 1e101, 1e200])
def test_embeddings_whose_squares_overflow_are_not_certified(size: float) -> None:
    toy, batch = classifier(1), some_tokens([3, 2])
    batch.x[0, 0, 0] = size
    radius = certify(toy, batch).radius
    assert bool(radius[0] > 0) is (size < 1e100)
    assert float(radius[1]) > 0
    assert F64 is radius.dtype
    assert size > RADIUS
