"""Models with attention certify replaced words, or say by which setting they would."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

from certify.threats import Characters, Synonyms
from layers import Attention, TransformerLayers
from lit_modules import OLSA, TaskModule, TextClassifier
from tests.unit.lit_modules.builders import attached, olsa, plain

LISTS = {"good": ["fine", "bad"], "bad": ["good"], "film": ["one", "it"], "long": ["far"]}
TEXTS = ["a good film", "not bad , long", "It is what it is", "bad , bad film"]
SYNONYMS = Synonyms.of(LISTS)
MEAN_NORM = TransformerLayers(mean_norm=True)

ABLE: dict[str, Callable[[], TaskModule]] = {
    "olsa": olsa(depth=1, offset_heads=2, feedforward=True, value_clip=1.0),
    "bag": plain(encoder="mean"),
    "transformer": plain(depth=1, layers=MEAN_NORM),
    "single logit": plain(depth=1, layers=MEAN_NORM, single_logit=True),
}


def sharp(build: Callable[[], TaskModule]) -> TaskModule:
    """No answer that leads everywhere: words change answers."""
    module = attached(build, classes=2)
    embedding = module.get_submodule("embedding.words")
    with torch.no_grad():
        embedding.get_parameter("weight").normal_()
        mean = module.predict_texts(TEXTS).mean(dim=0)
    head = [part for part in module.network.modules() if isinstance(part, torch.nn.Linear)][-1]
    if head.bias is not None:
        head.bias.data -= mean[-len(head.bias) :]
    return module


@pytest.mark.long
@pytest.mark.parametrize("name", ABLE)
def test_certificates_are_those_of_all_texts(name: str) -> None:
    module = sharp(ABLE[name])
    for certificate in module.text_certifier(SYNONYMS)(TEXTS, [1, None]):
        assert certificate.kind == "exact"  # so few texts are listed
        for k, holds in zip((1, None), certificate.holds, strict=True):
            threat = SYNONYMS.at(k)
            every = [" ".join(words) for words in product(*threat.candidates(certificate.text))]
            inside = [text for text in every if threat.contains(certificate.text, text)]
            answers = module.predict_texts(inside).argmax(dim=1)
            assert holds == bool((answers == certificate.prediction).all())


@pytest.mark.long
def test_the_model_may_change_afterwards() -> None:
    module = sharp(ABLE["olsa"])
    certifier = module.text_certifier(SYNONYMS)
    before = certifier(TEXTS, [1])
    with torch.no_grad():
        module.get_submodule("embedding.words").get_parameter("weight").normal_()
        module.network.get_parameter("head.weight").neg_()
    assert certifier(TEXTS, [1]) == before


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: OLSA(), None),
        (olsa(attention="l2"), "layers.attention=l2"),
        (plain(encoder="lstm", depth=1), "encoder=lstm"),
        (plain(), "layers.mean_norm=false"),
        (plain(layers=MEAN_NORM, attention=Attention(kind="cosformer")), "attention.kind="),
    ],
)
def test_a_model_without_one_says_what_has_one(made: Any, message: str | None) -> None:
    module = attached(made)
    if message is None:
        with pytest.raises(ValueError, match="without a certificate for characters, expected"):
            module.text_certifier(Characters(k=1))
        return
    expected = "certificate for synonyms, expected another setting"
    with pytest.raises(ValueError, match=f"{message}.* {expected}"):
        module.text_certifier(SYNONYMS)


def test_foreign_code_and_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="pairs of texts"):
        attached(olsa(), pairs=True).text_certifier(SYNONYMS)
    for name in ("network", "embedding"):
        for build in (olsa(), plain(depth=1, layers=MEAN_NORM)):
            module = attached(build)
            module.get_submodule(name).register_forward_hook(lambda part, given, out: 2 * out)
            with pytest.raises(ValueError, match="hook"):
                module.text_certifier(SYNONYMS)
    with pytest.raises(ValueError, match=r"layers\.mean_norm=false"):
        TextClassifier().text_certifier(SYNONYMS)
