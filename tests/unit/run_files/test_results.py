import json
import math
from pathlib import Path
from typing import Any

import pytest

from run_files import results
from run_files.results import Results
from run_files.summary_table import notes, table

IDENTITY: dict[str, Any] = {"run": "a", "method": "OLSA", "corpus": "reviews", "seed": 3}


def merge(path: Path, stage: str, metrics: dict[str, float]) -> Results:
    return results.merge(path, stage, identity=IDENTITY, metrics=metrics, seconds=1.23456)


def test_stages_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert results.read(path) is None
    merge(path, "fit", {"val/accuracy": 0.5})
    merge(path, "test", {"test/accuracy": 0.25})
    found = merge(path, "certify", {"certify/radius": math.nan})
    assert json.loads(path.read_text()) == found
    assert found["metrics"] == {"val/accuracy": 0.5, "test/accuracy": 0.25, "certify/radius": None}
    assert found["seconds"] == {"fit": 1.235, "test": 1.235, "certify": 1.235}
    assert found["seed"] == 3


def test_a_stage_that_is_repeated_drops_all_that_it_gave_before(tmp_path: Path) -> None:
    """A figure of another protocol must not stand beside those of this one."""
    path = tmp_path / "results.json"
    merge(path, "test", {"test/accuracy": 0.25, "test/pgd_accuracy": 0.1, "test/pgd_epsilon": 2})
    merge(path, "certify_paper", {"certify_paper/radius": 1.0})
    merge(path, "certify", {"certify/accuracy@3": 0.5})
    merge(path, "certify", {"certify/accuracy@1": 0.75})
    found = merge(path, "test", {"test/accuracy": 0.5})
    assert found["metrics"] == {
        "test/accuracy": 0.5,
        "certify/accuracy@1": 0.75,
        "certify_paper/radius": 1.0,
    }


def test_what_the_figures_are_about(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    stages: dict[str, dict[str, Any]] = {
        "test": {
            "file": "best.ckpt",
            "epoch": 3,
            "step": 7,
            "training_ended": False,
            "limit_test_batches": 2,
        },
        "certify": {"training_ended": True},
    }
    for stage, about in stages.items():
        whole = {**about, "checkpoint": "a"}
        results.merge(path, stage, identity=IDENTITY, metrics={}, seconds=1, subject=whole)
    found = results.read(path)
    assert found is not None
    assert len(results.foreign_subjects(found, checkpoint="b")) == 2
    assert notes(found).splitlines() == [
        "test: measured before the training had ended (best.ckpt: epoch 3, step 7)",
        "test: measured on a part of the split (--trainer.limit_test_batches 2)",
    ]
    assert notes(merge(path, "test", {})) == ""


def test_reopen(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results.reopen(path, 8)
    assert not path.exists()
    merge(path, "fit", {"val/accuracy": 0.5})
    merge(path, "test", {"test/accuracy": 0.25})
    assert results.reopened(results.read(path)) is None
    results.reopen(path, 8)
    found = results.read(path)
    assert results.reopened(found) == 8
    assert found is not None
    assert found["metrics"] == {"test/accuracy": 0.25}
    assert set(found["seconds"]) == {"test"}
    # What a validation has measured stays until a fit measures it anew.
    merge(path, "validate", {"val/accuracy": 0.75})
    merge(path, "fit", {"val/accuracy": 0.5})
    results.reopen(path, 8)
    assert results.after(results.read(path), "test", {}) == {"val/accuracy": 0.5}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"metrics": {}}'])
def test_unreadable(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"got {path}[ ,]"):
        results.read(path)


def test_table(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    merge(path, "fit", {"val/accuracy": 0.5})
    assert "val/accuracy  0.500" in table(merge(path, "validate", {"val/accuracy": 0.5}))
    merge(path, "test", {"test/accuracy": 0.25, "test/pgd_accuracy": 0.1, "test/pgd_epsilon": 0.5})
    figures = {"certify/radius": 7.0, "certify/radius_correct": math.inf}
    figures |= {"certify/accuracy@2": 0.125, "certify/accuracy@0.5": 0.25}
    lines = table(merge(path, "certify", figures)).splitlines()
    assert lines[1] == "OLSA on reviews, seed 3"
    assert [line.split("  ")[0] for line in lines[3:]] == [
        "accuracy",
        "mean certified radius, 0 where wrong",
        "certified accuracy at radius 0.5",
        "certified accuracy at radius 2",
        "accuracy under l2-PGD at eps = 0.5",
        "val/accuracy",
        "seconds",
    ]
    columns = {len(line) - len(line.split("  ", 1)[1].lstrip()) for line in lines[3:]}
    assert len(columns) == 1
    assert lines[4].endswith("not finite")
    assert lines[5].endswith("0.250")
    assert lines[9].endswith("4.9 (fit 1.2, validate 1.2, test 1.2, certify 1.2)")


def test_the_table_has_the_figures_of_every_task(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    shown = table(merge(path, "test", {"test/spearman": 0.5, "test/pearson": 0.25}))
    assert "Spearman  0.500" in shown
    assert "Pearson   0.250" in shown
    shown = table(merge(path, "test", {"test/accuracy": 0.75, "test/f1": 0.125}))
    assert "F1        0.125" in shown


def test_the_table_has_what_was_validated_after_a_test(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    merge(path, "fit", {"val/accuracy": 0.5})
    assert "val/accuracy" not in table(merge(path, "test", {"test/accuracy": 0.25}))
    assert "val/accuracy  0.750" in table(merge(path, "validate", {"val/accuracy": 0.75}))


def test_an_attack_is_shown_with_what_it_is_about(tmp_path: Path) -> None:
    metrics = {
        "test/accuracy": 0.923,
        "attack/pwws/samples": 20.0,
        "attack/pwws/clean_accuracy": 0.9,
        "attack/pwws/accuracy": 0.2,
        "attack/bae-x/samples": 10.0,
        "attack/bae-x/clean_accuracy": 1.0,
        "attack/bae-x/unreliable_accuracy": 0.5,
        "attack/bae-x/target": 1.0,
        "attack/old/accuracy": 0.25,
        "attack/mean_accuracy": 0.2,
    }
    lines = table(merge(tmp_path / "results.json", "test", metrics)).splitlines()
    shown = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines}
    assert shown["accuracy"] == "0.923"
    # Wilson's interval of 4 of 20 and of 5 of 10.
    assert shown["accuracy under pwws"] == (
        "0.200 [0.081 - 0.416] on 20 texts, untargeted; the same texts without attack 0.900"
    )
    assert shown["accuracy under bae-x"] == (
        "0.500 [0.237 - 0.763] on 10 texts, to class 1; the same texts without attack 1.000; "
        "no measure of robustness"
    )
    assert shown["accuracy under old"] == "0.250"
    assert not any("mean" in line for line in lines)


def test_the_table_compares_clean_accuracy_and_marks_a_collapsed_model(tmp_path: Path) -> None:
    metrics = {"test/accuracy": 0.75, "test/samples": 1200.0, "test/majority_accuracy": 0.75}
    metrics |= {"test/bag_accuracy": 0.875, "test/pgd_accuracy": 0.75, "test/ece": 0.25}
    shown = table(merge(tmp_path / "results.json", "test", metrics), void=True).splitlines()
    assert shown[3].split("  ")[-1].strip() == (
        "0.750 [0.725 - 0.774] on 1,200 texts; always the most frequent class 0.750; "
        "bag of words 0.875"
    )
    assert shown[4].split() == ["calibration", "error", "(ECE)", "0.250"]
    assert shown[5].endswith("0.750 (means nothing: one class only)")


def test_the_table_says_why_there_is_no_certificate(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    identity = IDENTITY | {"no_certificate": "nothing is proven"}
    old = {"certify/radius": 0.0, "certify/radius_correct": 0.0, "certify/accuracy@1": 0.0}
    merge(path, "certify", old)
    found = results.merge(path, "certify", identity=identity, metrics={}, seconds=0)
    assert found.get("no_certificate") == "nothing is proven"
    assert "no certificate: nothing is proven" in table(found)
    assert "0.000" not in table(found)
    # It is no figure of other commands.
    fresh = tmp_path / "fresh.json"
    tested = results.merge(fresh, "test", identity=identity, metrics={}, seconds=0)
    assert "certificate" not in table(tested)


def test_the_table_calls_an_unproven_formula_so(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    figures = {"certify_paper/radius_correct": 0.5, "certify_paper/accuracy@1": 0.25}
    shown = table(merge(path, "certify_paper", figures))
    assert "mean radius, 0 where wrong by the paper's formula (no guarantee)  0.500" in shown
    assert "accuracy at radius 1 by the paper's formula (no guarantee)        0.250" in shown
    assert "certified" not in shown


def test_the_table_names_the_radius_of_texts_without_labels(tmp_path: Path) -> None:
    shown = table(merge(tmp_path / "results.json", "certify", {"certify/radius": 0.5}))
    assert "mean certified radius, right or wrong  0.500" in shown


@pytest.mark.parametrize("count", [1e300, -1.0, 0.5])
def test_a_number_of_samples_that_is_none(tmp_path: Path, count: float) -> None:
    path = tmp_path / "results.json"
    results.merge(path, "test", identity=IDENTITY, metrics={"test/samples": count}, seconds=1.0)
    with pytest.raises(ValueError, match=r"metrics\.test/samples, expected a number of samples"):
        results.read(path)


def test_figures_about_other_weights_or_rows(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    measured: dict[str, Any] = {"checkpoint": "a", "rows": {"test": "1"}}
    stages = {"fit": {}, "test": measured, "x": {"checkpoint": "none"}}
    for stage, about in stages.items():
        results.merge(path, stage, identity=IDENTITY, metrics={}, seconds=1, subject=about)
    content = results.read(path)
    assert results.foreign_subjects(content, checkpoint="a", rows={"test": "1"}) == []
    assert results.foreign_subjects(content, rows={"validation": "2"}) == []
    assert results.foreign_subjects(content, checkpoint="b") == [measured]
    assert results.foreign_subjects(content, checkpoint="a", rows={"test": "2"}) == [measured]
    assert results.foreign_subjects(None, checkpoint="a") == []


def test_an_attack_with_the_name_of_a_mean_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    merge(path, "attack/worst_case", {"attack/worst_case/accuracy": 0.1})
    merge(path, "attack/a", {"attack/a/accuracy": 0.5, "attack/mean_accuracy": 0.3})
    found = merge(path, "attack/b", {"attack/b/accuracy": 0.75})
    assert found["metrics"] == {
        f"attack/{name}/accuracy": value
        for name, value in (("worst_case", 0.1), ("a", 0.5), ("b", 0.75))
    }
