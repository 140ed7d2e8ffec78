"""`check` and `functional`, by the real command line."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.integration.conftest import Steadfast, lines

ROWS = [(f"win cash now {i}", "spam") for i in range(6)]
ROWS += [(f"lunch at noon {i}", "ham") for i in range(6)]
VICTIM = ["--victim=python:victim_of_check:classify", "--classes=ham,spam"]


@pytest.fixture
def data(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(here)
    (here / "victim_of_check.py").write_text(
        "def classify(texts):\n    return [[0.0, 4.0 * ('cash' in text) - 2] for text in texts]\n"
    )
    path = here / "texts.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    return path


def test_a_gate_holds_or_fails_by_its_exit_status(data: Path, steadfast: Steadfast) -> None:
    command = ["check", *VICTIM, "--data=texts.tsv", "--positive=spam"]
    limits = ["--min_recall=0.9", "--max_false_alarms=0.01"]
    holds = steadfast(*command, *limits, "--write_baseline=before.json", "--recipes=deepwordbug")
    assert holds.status == 0, holds.err
    assert "Holds: 2 of 2 criteria." in holds.out
    # As the issue spells it.
    failing = ["--max-flip-rate", "0.05", "--recipes=deepwordbug", "--junit=j.xml"]
    fails = steadfast(*command, *limits, *failing, "--output=report.md", "--baseline=before.json")
    assert fails.status == 1
    assert "flip_rate/deepwordbug 1.000 (above 0.05)" in fails.out
    assert "not clearly worse than the baseline (+0.000" in fails.out
    suite = ElementTree.parse("j.xml").getroot()
    # Accuracy has no limit, but the baseline has it.
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    assert Path("report.md").read_text().startswith("### Gate fails")
    # Nothing else is stored.
    files = {path.name for path in data.parent.iterdir()} - {"__pycache__"}
    assert files == {"victim_of_check.py", "texts.tsv", "before.json", "j.xml", "report.md"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*VICTIM], "expected a limit, such as --min_accuracy 0.9"),
        ([*VICTIM, "--min_accuracy=2"], "min_accuracy=2"),
        (["--min_accuracy=0.5"], "expected a model: --run NAME, or --victim NAME"),
        ([*VICTIM, "--run=r", "--min_accuracy=0.5"], "expected a model: --run NAME"),
        ([*VICTIM, "--min-accuracies=1"], "--min_accuracies"),
    ],
)
def test_a_wrong_command_line_has_status_2(
    data: Path, steadfast: Steadfast, words: list[str], message: str
) -> None:
    outcome = steadfast("check", f"--data={data}", *words)
    assert outcome.status == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_model_without_certificates_is_refused(data: Path, steadfast: Steadfast) -> None:
    refused = steadfast("check", *VICTIM, f"--data={data}", "--min_certified=0", "--threat=typos")
    assert refused.status == 1
    assert "no other model has certificates" in refused.err


def test_functional_tests_of_a_run_are_filed_in_it(
    data: Path, steadfast: Steadfast, trained: Path
) -> None:
    data.write_text(
        "text\tlabel\tfunctionality\nnot a bad evening\tpositive\tnegation\n"
        "bland food\tnegative\tplain\n"
    )
    run = [f"--runs_dir={trained.parent}", f"--run={trained.name}"]
    outcome = steadfast("functional", data.name, *run)
    assert outcome.status == 0, outcome.err
    assert "mean of 2 functionalities" in outcome.out
    (first, _) = lines(trained / "functional" / "texts.jsonl")
    assert first["label_name"] == "positive"
    results = json.loads((trained / "results.json").read_text())
    assert results["metrics"]["functional/texts/samples"] == 2
    assert results["about"]["functional/texts"]["file"] == "best.ckpt"
    assert results["method"] == "OLSA"
