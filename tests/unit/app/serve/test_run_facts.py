from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.serve.run_facts import changed_texts, read_facts, slice_figures
from attacks.outcome import AttackRecord, from_line
from attacks.summary import summarise
from datamodules import Reviews, TextFiles
from datamodules.batching.examples import fingerprint
from measure.evidence import AttackEvidence, Evidence, StageRecords
from run_files.run_directory import RunDirectory

SHORT, LONG = "good food", "we waited for an hour and then the food that we got was cold"


def test_texts_of_files_of_ones_own(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows = [f"{split} {i}\t{'ab'[i % 2]}" for i in range(6)]
        (tmp_path / f"{split}.tsv").write_text("note\tkind\n" + "\n".join(rows) + "\n")
    run = RunDirectory(tmp_path / "run")
    files = {"train": "train.tsv", "validation": "train.tsv", "test": "test.tsv"}
    columns = {"text_column": "note", "label_column": "kind", "classes": None}
    settings = {**files, **columns, "data_dir": str(tmp_path), "batch_size": 4}
    data = {"class_path": "datamodules.TextFiles", "init_args": settings}
    run.write_config({"data": data})
    found = read_facts(run, data_dir=None, characters=100).texts
    assert len(found) == 6
    assert all(
        one["text"].startswith("test") and one["label"] == "ab"[int(one["text"][-1]) % 2]
        for one in found
    )


def test_rows_that_are_drawn_to_test(tmp_path: Path) -> None:
    # As `train --data FILE` does without `--data.test`.
    rows = [f"note {i};{'ab'[i % 2]}" for i in range(20)]
    (tmp_path / "notes.csv").write_text("text;label\n" + "\n".join(rows) + "\n")
    settings = {"train": str(tmp_path / "notes.csv"), "test": None, "test_share": 0.2}
    data = {"class_path": "datamodules.TextFiles", "init_args": settings}
    run = RunDirectory(tmp_path / "run")
    run.write_config({"data": data})
    source = TextFiles(train=settings["train"], test_share=0.2)
    source.setup("test")
    texts = read_facts(run, data_dir=None, characters=100).texts
    assert {row["text"] for row in texts} == {row.text for row in source.examples("test")}


def test_texts_of_the_corpus_that_the_run_was_tested_on(tmp_path: Path) -> None:
    data = {"class_path": "datamodules.Reviews", "init_args": {"corpus_seed": 1}}
    run = RunDirectory(tmp_path / "run")
    run.write_config({"data": data})
    source = Reviews(corpus_seed=1)
    source.setup("test")
    own = {row.text for row in source.examples("test")}
    assert {row["text"] for row in read_facts(run, data_dir=None, characters=999).texts} <= own


def test_a_corpus_that_is_gone(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    data = {"class_path": "datamodules.TextFiles", "init_args": {"train": "gone.tsv"}}
    run.write_config({"data": data})
    facts = read_facts(run, data_dir=None, characters=100)
    assert facts.texts == []
    assert facts.verdict is not None
    assert facts.verdict.level == "unmeasured"
    # A damaged file does not keep the model from being served.
    (run.path / "results.json").write_text("{")
    assert read_facts(run, data_dir=None, characters=100).verdict is None


def record(number: int, text: str, label: int, prediction: int, certified: str) -> dict[str, Any]:
    values = {"sample_id": number, "text": text, "label": label, "prediction": prediction}
    return {**values, "certified": certified}


def attacked(number: int, text: str, label: int, outcome: str) -> AttackRecord:
    values = {
        "sample_id": number,
        "label": label,
        "prediction": label,
        "outcome": outcome,
        "text": text,
        "adversarial": text.upper(),
        "adversarial_prediction": 1 - label,
        "score": -1.0,
        "adversarial_score": 1.0,
        "words": 2,
        "words_changed": 1,
        "queries": 3,
        "unique_queries": 3,
        "exhausted": False,
        "seconds": 1.0,
        "seed": 0,
        "reason": None,
        "similarity": None,
        "saturated": False,
    }
    return from_line(values)


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    rows = [
        *(record(0, SHORT, 0, 0, "all"), record(1, SHORT, 0, 1, "2")),
        *(record(2, LONG, 1, 1, "0"), record(3, LONG, 0, 0, "1")),
    ]
    stage = StageRecords("certificates_pwws.jsonl", rows, None, {})
    attacks = [attacked(0, SHORT, 0, "succeeded"), attacked(2, LONG, 1, "failed")]
    attacks += [attacked(1, SHORT, 0, "skipped"), attacked(3, LONG, 0, "failed")]
    summary = summarise(attacks, score="margin")
    return Evidence(
        run=RunDirectory(tmp_path / "run"),
        settings={},
        results=None,
        weights="",
        class_names=("bad", "good"),
        in_words={"certify_pwws": stage},
        attacks=[AttackEvidence("pwws", attacks, summary, None)],
    )


def test_slices_by_class_and_length(evidence: Evidence) -> None:
    rows = {(row["by"], row["name"]): row for row in slice_figures(evidence, {})}
    assert list(rows) == [
        *(("class", "bad"), ("class", "good"), ("words", "1-10"), ("words", "11-20"))
    ]
    bad = rows["class", "bad"]
    assert bad["samples"] == 3
    assert bad["accuracy"] == pytest.approx(2 / 3)
    # Certified, but wrong, does not count; skipped texts were not attacked.
    assert bad["certified"] == pytest.approx(2 / 3)
    assert bad["flips"] == {"pwws": [2, 0.5]}
    assert rows["class", "good"]["certified"] == 0
    assert rows["words", "1-10"]["accuracy"] == 0.5
    assert rows["words", "1-10"]["flips"] == {"pwws": [1, 1.0]}
    assert rows["words", "11-20"]["flips"] == {"pwws": [2, 0.0]}


def test_records_without_texts_take_those_of_the_corpus(evidence: Evidence) -> None:
    (stage,) = evidence.in_words.values()
    for line in stage.records:
        del line["text"]
    # The class of the last one says that the corpus is another one now.
    texts = {0: (SHORT, 0), 1: (SHORT, 0), 2: (LONG, 1), 3: (LONG, 1)}
    rows = [row for row in slice_figures(evidence, texts) if row["by"] == "words"]
    assert [(row["name"], row["samples"]) for row in rows] == [("1-10", 2), ("11-20", 1)]


def test_changed_texts_of_attacks(evidence: Evidence) -> None:
    (flip,) = changed_texts(evidence, characters=100)
    assert flip == {
        "text": SHORT,
        "label": "bad",
        "attack": "pwws",
        "adversarial": SHORT.upper(),
        "becomes": "good",
    }
    assert changed_texts(evidence, characters=5) == []


@pytest.mark.parametrize("change", [{"of_test": False}, {"goal": "unchanged"}])
def test_other_splits_and_kept_predictions_are_no_flips(
    evidence: Evidence, change: dict[str, Any]
) -> None:
    other = replace(evidence, attacks=[evidence.attacks[0]._replace(**change)])
    assert changed_texts(other, characters=100) == []
    assert not any(row["flips"] for row in slice_figures(other, {}))


@pytest.mark.parametrize("changed", [False, True])
def test_certificates_of_other_rows_mark_no_text(
    evidence: Evidence, changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["good food\tbad", "good food\tbad", "bad food\tgood", "good food\tbad"]
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\n" + "\n".join(lines) + "\n")
    settings: dict[str, Any] = {"test": str(file), "classes": ["bad", "good"]}
    evidence.run.write_config(
        {"data": {"class_path": "datamodules.TextFiles", "init_args": settings}}
    )
    source = TextFiles(**settings)
    source.setup("test")
    (stage,) = evidence.in_words.values()
    known = stage._replace(rows=fingerprint(source.examples("test")))
    read = replace(evidence, in_words={"certify_pwws": known})
    monkeypatch.setattr("app.serve.run_facts.read_evidence", lambda _: read)
    if changed:
        file.write_text("text\tlabel\n" + "\n".join(reversed(lines)) + "\n")
    texts = read_facts(evidence.run, data_dir=None, characters=100).texts
    marked = sorted(row["text"] for row in texts if row["certified"])
    assert marked == ([] if changed else ["good food"] * 3)
