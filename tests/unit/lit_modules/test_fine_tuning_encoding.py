"""An encoder behind an encoding of words: its certificates against all texts of the sets."""

import json
from itertools import product
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from certify.threats import Characters, Synonyms, WordEditDistance
from lit_modules import FineTuning, load
from tests.unit.lit_modules.encoders import made

LISTS = {"good": ["fine", "bad"], "bad": ["good"], "film": ["one", "it"], "long": ["far"]}
TEXTS = ["a good film", "not bad , long", "It is what it is", "bad , bad film"]
SYNONYMS = Synonyms.of(LISTS)


@pytest.fixture
def path(tmp_path: Path) -> str:
    written = tmp_path / "encoding.json"
    written.write_text(json.dumps({"fine": "good", "far": "long", "one": "film"}))
    return str(written)


def sharp(path: str | None) -> FineTuning:
    """Large weights, and no answer that leads everywhere: words change answers."""
    module: FineTuning = made(FineTuning, encoding=path)
    with torch.no_grad():
        for parameter in module.network.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)
        module.eval()
        head = [part for part in module.network.modules() if isinstance(part, torch.nn.Linear)][-1]
        head.bias.sub_(module.predict_texts(TEXTS).mean(dim=0))
    return module


def test_certificates_are_those_of_all_texts(path: str) -> None:
    module = sharp(path)
    plain = 0
    held = set()
    for certificate in module.text_certifier(SYNONYMS)(TEXTS, [1, None]):
        for k, holds in zip((1, None), certificate.holds, strict=True):
            threat = SYNONYMS.at(k)
            every = [" ".join(words) for words in product(*threat.candidates(certificate.text))]
            inside = [text for text in every if threat.contains(certificate.text, text)]
            answers = module.predict_texts(inside).argmax(dim=1)
            assert holds == bool((answers == certificate.prediction).all())
            plain += len(inside)
            held.add(holds)
        assert certificate.kind == "exact"
    assert held == {True, False}
    assert plain > 20


@pytest.mark.long
def test_a_checkpoint_has_the_encoding(path: str, tmp_path: Path) -> None:
    module = sharp(path)
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    Path(path).unlink()
    again = load(tmp_path / "a.ckpt")
    assert torch.equal(again.predict_texts(TEXTS), module.predict_texts(TEXTS))
    arguments = (TEXTS, [1, None])
    assert again.text_certifier(SYNONYMS)(*arguments) == module.text_certifier(SYNONYMS)(*arguments)


def test_who_has_no_certificate(path: str) -> None:
    with pytest.raises(ValueError, match="encoding=null, which has no certificate"):
        sharp(None).text_certifier(SYNONYMS)
    module = sharp(path)
    for threat in (Characters(k=1), WordEditDistance(k=1)):
        with pytest.raises(ValueError, match="expected a method that has one"):
            module.text_certifier(threat)
