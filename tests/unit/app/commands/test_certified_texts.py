"""`certify --text`: what is printed about a text."""

import argparse
import sys

import pytest
import torch
from torch import Tensor

from app.commands.certify import _answer
from certify.smoothing import SmoothedCertifier, Smoothing
from certify.threats import WordEditDistance
from tests.unit.lit_modules.builders import attached, plain

TEXT = "a good film"


@pytest.mark.parametrize("same", [True, False])
def test_a_smoothed_classifier_with_another_prediction_is_told_apart(
    same: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, threat = attached(plain(encoder="mean"), classes=2), WordEditDistance(k=1)
    own = int(model.predict_texts([TEXT]).argmax())
    other = own if same else 1 - own

    def classify(texts: list[str]) -> Tensor:
        return torch.full((len(texts),), other)

    settings = Smoothing(noise="delete", rate=0.9, samples=100)
    certifier = SmoothedCertifier(classify, threat, settings)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _answer(argparse.Namespace(text=[TEXT], json=False), certifier, threat, [1], model)
    name = model.require_text()[1][other]
    printed = capsys.readouterr().out
    assert "Certified with confidence" in printed
    assert (f"this is about another prediction, {name}" in printed) == (not same)
