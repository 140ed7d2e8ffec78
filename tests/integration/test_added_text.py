"""Detectors that added text cannot evade, by the real command line."""

import json
import sys
from pathlib import Path
from subprocess import run

import pytest

from tests.integration.conftest import QUIET, REVIEWS, Steadfast, lines, results

CHECKER = Path(__file__).parents[2] / "docs/certificates/check_detector.py"
FORM = "--model.words.canonical"
METHODS = {
    "append": [
        "--model=MonotoneScores",
        "--model.window=2",
        "--model.words.front_end=canonical",
        *(f"{FORM}.display=true", f"{FORM}.leetspeak=true", f"{FORM}.spaced=true"),
    ],
    "append-lines": [
        "--model=WindowMax",
        "--model.classifier=TextClassifier",
        "--model.classifier.encoder=mean",
        "--model.classifier.width=8",
    ],
}


@pytest.mark.parametrize(
    "threat", [t if t == "append" else pytest.param(t, marks=pytest.mark.slow) for t in METHODS]
)
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
    outcome = steadfast("certify", "export", "--run=a", f"--threat={threat}", "--output=claims")
    if threat == "append-lines":
        assert outcome.status == 1
        assert "expected a run of WordScores or MonotoneScores" in outcome.err
    else:
        assert outcome.status == 0, outcome.err
        command = [sys.executable, "-I", str(CHECKER), "claims"]
        checked = run(command, capture_output=True, text=True, check=False)
        number = sum(record["holds"]["all"] for record in records)
        assert checked.stdout.startswith(f"{number} texts stay positive: any text"), checked.stderr
    outcome = steadfast("certify", "--run=a", "--threat=appended", "--num_samples=4")
    assert outcome.status == 2
    assert "append-glued" in outcome.err
