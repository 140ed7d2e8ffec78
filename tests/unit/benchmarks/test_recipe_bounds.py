"""The benchmark that compares certificates with published recipes."""

import json
from pathlib import Path

import pytest
import torch

from attacks.digests import file_digest
from attacks.resources.catalogue import Resources
from attacks.word_sets import find_sets
from benchmarks.recipe_bounds import Bound, attacked, bound, recorded, report, ways_out
from certify.threats import TextCertifier
from lit_modules import WordScores
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
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


def bound_of(made: WordScores, recipe: str, named: str, resources: Resources) -> Bound:
    """Attack texts with right predictions by a recipe, and look for the outcomes in a set."""
    answers = made.predict_texts(TEXTS).argmax(dim=1).tolist()
    records = attacked(made, list(zip(TEXTS, answers, strict=True)), recipe, resources)
    return bound(made, records, find_sets(named, FRONT, resources))


@pytest.mark.parametrize("recipe", ["pwws", "deepwordbug"])
def test_no_recipe_changes_a_certified_text(recipe: str, resources: Resources) -> None:
    outcome = bound_of(model(), recipe, recipe, resources)
    assert outcome.right == set(range(len(TEXTS)))
    assert outcome.certified
    assert outcome.changed
    assert not outcome.broken
    assert f"| {recipe} | 8 | 100.0 |" in report({recipe: outcome})


def test_texts_of_one_recipe_leave_the_set_of_another(resources: Resources) -> None:
    outcome = bound_of(model(), "deepwordbug", "pwws", resources)
    assert outcome.outside == outcome.changed != set()
    assert not outcome.broken
    assert outcome.ways.keys() <= {"a word of one edit that stays", "another word"}


def test_a_wrong_certificate_is_noticed(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = model()
    # The set of another recipe.
    real = find_sets
    small = made.text_certifier(real("canonical", FRONT, resources))

    def certifier(threat: object) -> TextCertifier:
        return small

    monkeypatch.setattr(made, "text_certifier", certifier)
    outcome = bound_of(made, "deepwordbug", "deepwordbug", resources)
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


def test_recorded_outcomes_are_those_of_the_run(tmp_path: Path, resources: Resources) -> None:
    run = RunDirectory(tmp_path)
    run.last.parent.mkdir()
    run.last.write_bytes(b"weights")
    with pytest.raises(ValueError, match=r"got no records in .*deepwordbug.jsonl, expected"):
        recorded(run, "deepwordbug")
    samples = [(text, 0) for text in TEXTS]
    records = attacked(model(), samples, "deepwordbug", resources)
    ledger = attack_ledger(run, "deepwordbug")
    ledger.records_path.parent.mkdir()
    ledger.records_path.write_text("".join(json.dumps(r.line()) + "\n" for r in records))
    ledger.finish({"checkpoint": file_digest(run.last)}, 1.0, None)
    assert recorded(run, "deepwordbug") == records
    run.last.write_bytes(b"other weights")
    with pytest.raises(ValueError, match="got records of other weights"):
        recorded(run, "deepwordbug")
