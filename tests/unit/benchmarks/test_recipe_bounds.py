"""The benchmark that compares certificates with published recipes."""

from pathlib import Path

import pytest
import torch

from attacks.resources.catalogue import Resources
from attacks.word_sets import find_sets
from benchmarks.recipe_bounds import bound, report, ways_out
from certify.threats import TextCertifier
from lit_modules import WordScores
from tests.unit.attacks.lexicon import write_resources
from text import WordSettings

FRONT = WordSettings(split="joined", front_end="spelling")
TEXTS = [
    "a good film",
    "a big movie",
    "not a bad film",
    "go well",
    "a take",
    "Hollywood film",
    "ox",
    "xo",
]


def model() -> WordScores:
    torch.manual_seed(3)
    made = WordScores(words=FRONT)
    tokenizer = made.word_tokenizer(TEXTS)
    made.attach(tokenizer, ["negative", "positive"])
    made.configure_model()
    assert made.scores is not None
    with torch.no_grad():
        made.scores.words.normal_()
        # A swap of two letters makes one of the other.
        made.scores.words[tokenizer.ids(["ox", "xo"])] = torch.eye(2)
    return made.eval()


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    return Resources(write_resources(tmp_path, {"good": ["fine"], "film": ["movie"]}))


@pytest.mark.parametrize("recipe", ["pwws", "deepwordbug"])
def test_no_recipe_changes_a_certified_text(recipe: str, resources: Resources) -> None:
    made = model()
    answers = made.predict_texts(TEXTS).argmax(dim=1).tolist()
    outcome = bound(made, list(zip(TEXTS, answers, strict=True)), recipe, resources)
    assert outcome.right == set(range(len(TEXTS)))
    assert outcome.certified
    assert outcome.changed
    assert not outcome.broken
    assert f"| {recipe} | 100.0 |" in report({recipe: outcome}, len(TEXTS))


def test_a_wrong_certificate_is_noticed(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = model()
    answers = made.predict_texts(TEXTS).argmax(dim=1).tolist()
    # The set of another recipe.
    real = find_sets
    small = made.text_certifier(real("canonical", FRONT, resources))

    def certifier(threat: object) -> TextCertifier:
        return small

    monkeypatch.setattr(made, "text_certifier", certifier)
    outcome = bound(made, list(zip(TEXTS, answers, strict=True)), "deepwordbug", resources)
    assert outcome.broken == outcome.changed != set()


def test_the_ways_out_of_a_set(resources: Resources) -> None:
    threat = find_sets("deepwordbug", FRONT, resources)
    ways = dict(ways_out(threat, "the good film was big", "teh goood fl was"))
    assert ways == {
        "a word of one edit that stays": "the -> teh",
        "another word": "film -> fl",
        "fewer words": "big -> ",
    }
    assert list(ways_out(threat, "good film", "goxxd films")) == [("another word", "good -> goxxd")]
    assert list(ways_out(threat, "good film", "go od film")) == [("more words", "good -> go od")]
