"""The transfer matrix, by hand, on classifiers that know some words."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attacks.outcome import AttackRecord, Outcome
from measure.evidence import RunReader
from measure.transfer_matrix import (
    AttackedRun,
    file_transfers,
    matrix_files,
    matrix_table,
    transfer_matrix,
)
from run_files.run_directory import RunDirectory
from tests.unit.attacks.outcomes import record
from text import Text
from text.estimates import wilson

PROTOCOL = {"recipe": "pwws", "samples": "rows", "seed": 0}
TEXTS = ["good", "fine", "bad", "dull", "grand"]
LABELS = ["up", "up", "down", "down", "up"]


def ended(number: int, outcome: Outcome, adversarial: str | None) -> AttackRecord:
    return record(
        number,
        label=LABELS[number] == "up",
        outcome=outcome,
        text=TEXTS[number],
        adversarial=adversarial,
        label_name=LABELS[number],
    )


def attacked(name: str, up: set[str], *records: AttackRecord, **changes: Any) -> AttackedRun:
    """A run whose model says `up` to some texts, and `down` to all others."""

    def classify(texts: Sequence[Text]) -> list[str]:
        return ["up" if text in up else "down" for text in texts]

    return AttackedRun(
        name=name,
        subject={**PROTOCOL, "checkpoint": name, **changes},
        records=records,
        classify=classify,
    )


def two() -> list[AttackedRun]:
    a = attacked(
        "a",
        {"good", "fine", "bda"},
        ended(0, "succeeded", "goood"),
        ended(1, "succeeded", "fien"),
        ended(2, "succeeded", "bda"),
        ended(3, "failed", "dlul"),
        ended(4, "skipped", None),
    )
    b = attacked(
        "b",
        {"good", "grand", "goood", "bda", "dlul", "dule"},
        ended(0, "failed", "goood"),
        ended(1, "skipped", None),
        ended(2, "failed", "bdd"),
        ended(3, "succeeded", "dule"),
        ended(4, "succeeded", "grnad"),
    )
    return [a, b]


def test_matrix_by_hand() -> None:
    matrix = transfer_matrix(two())
    # Texts of a that succeeded: goood, fien, bda. Its own model is fooled by all three.
    assert matrix["a"]["a"].fooled == wilson(3, 3)
    # b is wrong about `fine`; of the others goood leaves it right, bda does not.
    assert matrix["a"]["b"].fooled == wilson(1, 2)
    # Texts of b: dule and grnad. a is wrong about `grand`, and right about dule.
    assert matrix["b"]["a"].fooled == wilson(0, 1)
    assert matrix["b"]["b"].fooled == wilson(2, 2)
    # Static: the texts of a are goood, fien, bda, dull, grand.
    assert matrix["a"]["a"].accuracy == wilson(1, 5)
    assert matrix["a"]["b"].accuracy == wilson(3, 5)
    # Those of b: good, fine, bad, dule, grnad.
    assert matrix["b"]["a"].accuracy == wilson(4, 5)
    assert matrix["b"]["b"].accuracy == wilson(2, 5)
    # All changed texts, also those that failed: goood, fien, bda, dlul.
    assert matrix["a"]["b"].changed == wilson(1, 4)
    assert "0.500 [0.095, 0.905] 1/2" in matrix_table(matrix, "fooled")
    assert "3/5" in matrix_table(matrix, "accuracy")


def test_no_text_succeeded() -> None:
    skipped = [ended(number, "skipped", None) for number in range(5)]
    runs = [attacked("a", set(), *skipped), attacked("b", {"good"}, *skipped)]
    cell = transfer_matrix(runs)["a"]["b"]
    assert (cell.fooled, cell.changed, cell.accuracy) == (None, None, wilson(3, 5))
    assert "no text" in matrix_table(transfer_matrix(runs), "fooled")


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"seed": 1}, "differ in seed 0 -> 1"), ({"samples": "other"}, "differ in samples")],
)
def test_other_protocols_are_refused(changes: dict[str, Any], says: str) -> None:
    first, second = two()
    other = attacked("b", set(), *second.records, **changes)
    with pytest.raises(ValueError, match=f"attacks of a and b that {says}.*expected one protocol"):
        transfer_matrix([first, other])
    fewer = attacked("b", set(), *second.records[:4])
    with pytest.raises(ValueError, match=r"5 samples of a and 4 of b, .*--num_samples"):
        transfer_matrix([first, fewer])
    # Weights and version of the program may differ.
    transfer_matrix([first, attacked("b", set(), *second.records, program="0.2")])


def of_victim(name: str, *records: AttackRecord, **changes: Any) -> AttackedRun:
    """A victim that is no run: its subject has a table, and no rows of a corpus."""
    table = {"victim": name, "dataset": "test.tsv", "columns": ["text"], "recipe": "pwws"}
    run = attacked(name, {"good"}, *records)
    return replace(run, subject={**table, "seed": 0, **changes})


def test_a_run_and_a_victim_from_elsewhere() -> None:
    first, second = two()
    corpus = {"corpus": "sst2", "split": "test", "columns": ["sentence"]}
    run = attacked("a", {"good"}, *first.records, **corpus)
    other = of_victim("b", *second.records)
    assert transfer_matrix([run, other])["a"]["b"].fooled is not None
    assert transfer_matrix([other, of_victim("c", *second.records)])["b"]["c"].fooled is not None
    with pytest.raises(ValueError, match="of a and b that differ in seed 0 -> 1"):
        transfer_matrix([run, of_victim("b", *second.records, seed=1)])
    with pytest.raises(ValueError, match=r"differ in dataset .test\.tsv. -> .x\.tsv."):
        transfer_matrix([other, of_victim("c", *second.records, dataset="x.tsv")])


def test_the_matrix_as_files() -> None:
    matrix = transfer_matrix(two())
    as_json, as_csv = matrix_files("pwws", matrix)
    rows = {(row["texts_of"], row["read_by"]): row for row in json.loads(as_json)}
    assert rows["a", "b"]["fooled_value"] == 0.5
    assert rows["a", "b"]["fooled_count"] == 2
    assert rows["b", "a"]["accuracy_value"] == pytest.approx(0.8)
    lines = list(csv.DictReader(as_csv.splitlines()))
    assert [(line["texts_of"], line["read_by"]) for line in lines] == list(rows)
    assert {line["attack"] for line in lines} == {"pwws"}
    assert float(lines[1]["fooled_high"]) == rows["a", "b"]["fooled_high"]


def test_figures_are_filed_with_the_reader(tmp_path: Path) -> None:
    runs = two()
    matrix = transfer_matrix(runs)
    subjects = {run.name: run.subject for run in runs}
    reader = RunDirectory(tmp_path / "b")
    with pytest.raises(ValueError, match=r"run b without results\.json"):
        file_transfers(reader, "pwws", matrix, subjects, 1.0)
    old: dict[str, Any] = {"run": "b", "method": "OLSA", "corpus": "x", "seed": 3}
    old |= {"metrics": {"test/accuracy": 0.5}, "seconds": {"test": 1.0}, "versions": {}}
    old |= {"no_certificate": "none"}
    reader.path.mkdir()
    reader.results_path.write_text(json.dumps(old))
    records = {"a": "digest of a", "b": "digest of b"}
    file_transfers(reader, "pwws", matrix, subjects, 1.0, records=records)
    results = reader.results()
    assert results is not None
    metrics = results["metrics"]
    assert metrics["test/accuracy"] == 0.5
    # The static attack is that of the first run.
    assert metrics["transfer/pwws/accuracy"] == metrics["transfer/pwws/of/a/accuracy"] == 3 / 5
    assert (metrics["transfer/pwws/fooled"], metrics["transfer/pwws/texts"]) == (0.5, 2)
    assert metrics["transfer/pwws/of/b/accuracy"] == 2 / 5
    assert results["about"]["transfer/pwws"]["checkpoint"] == "b"
    assert dict(results["about"]["transfer/pwws"])["records"] == records
    assert (results["no_certificate"], results["seed"]) == ("none", 3)
    reader.config_path.write_text("{}")
    (transfer,) = RunReader(reader).transfers()
    assert (transfer.source, transfer.attack, transfer.weights) == ("a", "pwws", "a")
    assert transfer.accuracy == wilson(1, 4)
    assert transfer.records == "digest of a"
