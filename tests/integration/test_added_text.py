"""Detectors that added text cannot evade, by the real command line."""

import json
from pathlib import Path

import pytest

from tests.integration.conftest import QUIET, REVIEWS, Steadfast, lines, results

METHODS = {
    "append": ["--model=MonotoneScores", "--model.window=2", "--model.words.split=ascii"],
    "append-lines": [
        "--model=WindowMax",
        "--model.classifier=TextClassifier",
        "--model.classifier.encoder=mean",
        "--model.classifier.width=8",
    ],
}


@pytest.mark.parametrize("threat", METHODS)
def test_added_text(here: Path, steadfast: Steadfast, threat: str) -> None:
    rate = "--model.classifier" if threat == "append-lines" else "--model"
    adam = [f"{rate}.optimisation.optimizer=Adam", f"{rate}.optimisation.optimizer.lr=0.1"]
    outcome = steadfast(
        "train", METHODS[threat], adam, REVIEWS, QUIET, "--trainer.max_epochs=2", "--run=a"
    )
    assert outcome.status == 0, outcome.err
    outcome = steadfast("certify", "--run=a", f"--threat={threat}", "--num_samples=40")
    assert outcome.status == 0, outcome.err
    assert "of the detected" in outcome.out
    found = {
        name.partition("/")[2]: value
        for name, value in results("a")["metrics"].items()
        if name.startswith(f"certify_{threat}/")
    }
    # Each detection is certified.
    assert found["recall@all"] == found["recall"] > 0
    assert found["detected@all"] == 1
    records = lines(f"runs/a/certificates_{threat}.jsonl")
    assert len(records) == 40
    assert all(r["holds"]["all"] == (r["prediction"] == 1) for r in records)
    detected = next(record["text"] for record in records if record["prediction"] == 1)
    outcome = steadfast("predict", "--run=a", "--text", detected, "--json")
    (certificate,) = json.loads(outcome.out)["certificates"]
    assert certificate["sentence"].startswith("Certified against any")
    outcome = steadfast("certify", "--run=a", "--threat=appended", "--num_samples=4")
    assert outcome.status == 2
    assert "append-glued" in outcome.err
