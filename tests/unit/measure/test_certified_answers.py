"""Certificates in words next to the answer about a text."""

import json
from itertools import product
from pathlib import Path

import pytest
import torch

from app.serve.explanations import describe_certificates
from lit_modules import WordScores
from measure.certified_answers import ThreatCertifiers
from measure.predictions import TextPredictor
from text import WordSettings

TEXTS = ["a good film", "a great film", "a bad film", "a dull film", "good", "bad film"]
LISTS = {"good": ["great", "dull"], "film": ["movie"], "great": ["good"]}


@pytest.fixture(scope="module")
def model() -> WordScores:
    torch.manual_seed(3)
    made = WordScores(words=WordSettings(split="ascii"))
    made.attach(made.build_tokenizer(TEXTS), ["negative", "positive"])
    made.configure_model()
    assert made.scores is not None
    # Weights are zero before training.
    with torch.no_grad():
        for weight in made.scores.parameters():
            weight.normal_()
    return made.eval()


@pytest.fixture
def lists(tmp_path: Path) -> str:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(LISTS))
    return str(path)


def test_they_are_those_of_brute_force(model: WordScores, lists: str) -> None:
    certificates = ThreatCertifiers(model, lists)
    assert certificates.threats == ["synonyms", "characters", "words"]
    for text in TEXTS:
        words = [(word, *LISTS.get(word, ())) for word in text.split()]
        changed = [" ".join(choice) for choice in product(*words)]
        predictions = model.predict_texts(changed).argmax(dim=1)
        stays = bool((predictions == predictions[0]).all())
        record = next(line for line in certificates(text) if line["threat"] == "synonyms")
        assert (record["certified"] == "all") is stays
        if not stays and record["certified"] == "0":
            own, other = model.predict_texts([text, record["witness"]]).argmax(dim=1)
            assert own != other


def test_without_lists_only_the_threats_that_need_none(model: WordScores) -> None:
    assert ThreatCertifiers(model).threats == ["characters", "words"]


def test_the_sentence_of_the_page(model: WordScores, lists: str) -> None:
    """A model with exact certificates is never shown as one of which nothing is proved."""
    answering = TextPredictor(model, ThreatCertifiers(model, lists))
    for answer in answering(TEXTS):
        sentences = describe_certificates(answer, answering.no_certificate)
        assert "Nothing is proved" not in sentences
        for record in answer["certificates"]:
            if record["certified"] != "0":
                expected = f"Proved: the prediction stays {answer['prediction']} if "
                assert f"{expected}{record['statement']}." in sentences
            else:
                assert f"{record['witness']!r} is {record['witness_class']}" in sentences
