"""The verdict on a run: each level at its threshold, references, old runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from measure.labelled_predictions import Predictions
from measure.verdict import MEANINGLESS, RunVerdict, judge, judge_run
from run_files.results import Results
from run_files.run_directory import RunDirectory
from text.torch_archive import CHECKPOINT_FORMAT, CHECKPOINT_KEY


def metrics(accuracy: float = 0.8, **more: float) -> dict[str, float | None]:
    """Figures of 1,000 test texts of two classes in equal parts."""
    usual = {"samples": 1000, "accuracy": accuracy, "macro_f1": accuracy, "majority_accuracy": 0.5}
    usual |= {"largest_class": 0.55, "absorbed": 0.3, "ece": 0.04, "brier": 0.2}
    return {f"test/{name}": float(value) for name, value in {**usual, **more}.items()}


def attack(name: str, clean: float, accuracy: float, samples: int = 500) -> dict[str, float]:
    """Figures of an attack."""
    figures = {"samples": samples, "clean_accuracy": clean, "accuracy": accuracy}
    return {f"attack/{name}/{key}": float(value) for key, value in figures.items()}


def words(accuracy: float, clean: float = 0.8, sets: str = "pwws") -> dict[str, float]:
    """Figures of a certificate in words."""
    figures = {"samples": 1000.0, "accuracy": clean, "accuracy@1": 0.79, "accuracy@all": accuracy}
    return {f"certify_{sets}/{name}": value for name, value in figures.items()}


def verdict(*parts: dict[str, float], accuracy: float = 0.8, **more: float) -> RunVerdict:
    """Judge figures; `more` are those of the test."""
    figures = metrics(accuracy, **more)
    for part in parts:
        figures |= part
    return judge(figures, subjects={})


@pytest.mark.parametrize(
    ("parts", "accuracy", "level"),
    [
        ([], 0.8, "untested"),
        # The interval of 530 of 1,000 begins below 0.5, that of 532 above.
        ([], 0.53, "weak"),
        ([], 0.532, "untested"),
        # 360 of 400 stay right: at most 13.3 % change. 340 of 400: at most 18.8 %.
        ([attack("pwws", 0.8, 0.72)], 0.8, "robust"),
        ([attack("pwws", 0.8, 0.68)], 0.8, "robust"),
        ([attack("pwws", 0.8, 0.66)], 0.8, "partial"),
        # The same share of few texts proves less.
        ([attack("pwws", 0.8, 0.72, samples=50)], 0.8, "partial"),
        ([attack("pwws", 0.8, 0.72), attack("textfooler", 0.8, 0.6)], 0.8, "partial"),
        ([attack("pwws", 0.99, 0.494)], 0.99, "fragile"),
        ([attack("pwws", 0.8, 0.5)], 0.8, "fragile"),
        ([attack("pwws", 0.8, 0.502)], 0.8, "partial"),
        ([words(0.7)], 0.8, "robust"),
        # 665 of 800 are certified: at least 80.4 %. 660 of 800: at least 79.7 %.
        ([words(0.665)], 0.8, "robust"),
        ([words(0.66)], 0.8, "partial"),
        ([words(0.5)], 0.8, "untested"),
        # An attack outside of the certificate's sets decides.
        ([words(0.7), attack("textfooler", 0.8, 0.1)], 0.8, "fragile"),
    ],
)
def test_levels(parts: list[dict[str, float]], accuracy: float, level: str) -> None:
    assert verdict(*parts, accuracy=accuracy).level == level


def test_a_collapsed_model_is_never_robust() -> None:
    judged = verdict(attack("pwws", 0.6, 0.6), words(0.6), accuracy=0.6, absorbed=0.95)
    assert judged.collapsed
    assert MEANINGLESS in judged.headline.replace(" (55.0 % of the texts)", "")
    for kind in ("attack", "words"):
        assert [figure.note for figure in judged.of_kind(kind)] == [MEANINGLESS]
    assert verdict(attack("pwws", 0.6, 0.6), accuracy=0.6, absorbed=0.949).level == "robust"


def test_evaded_detections_are_no_accuracy_under_attack() -> None:
    def evaded(name: str, rate: float, **more: float) -> dict[str, float]:
        figures = {"flip_rate": rate, "attacked": 106.0, **more}
        return {f"attack/{name}/{key}": value for key, value in figures.items()}

    parts = [attack("split", 0.93, 0.0), evaded("split", 0.98), evaded("case", 0.0)]
    forced = [attack("unicode", 1.0, 0.9), evaded("unicode", 0.1, target=1.0)]
    judged = verdict(*parts, *forced)
    assert judged.level == "untested"
    assert "; split evades 98.0 % of 106 detections; " in judged.headline
    assert judged.headline.endswith("; unicode makes false alarms of 10.0 % of 106 texts.")
    assert not judged.of_kind("attack")
    # Without a detection there is no flip rate.
    about = {"attack/split": {"goal": "evade"}}
    assert judge(metrics() | attack("split", 0.0, 0.0), subjects=about).level == "untested"
    # Other texts than those of one class decide; their accuracy is not compared with a recall.
    both = verdict(*parts, attack("pwws", 0.8, 0.72))
    assert both.level == "robust"
    assert [line for line in both.cautions if "split" in line] == [
        "split evades 98.0 % of 106 detections."
    ]


def test_the_attacked_sample_is_next_to_the_accuracy_under_attack() -> None:
    judged = verdict(attack("pwws", 0.5, 0.5, samples=30), accuracy=0.69)
    figure = judged.figure("attack/pwws/accuracy")
    assert figure is not None
    assert [(r.title, r.value) for r in figure.references] == [
        ("the same texts without attack", 0.5)
    ]
    assert figure.note == "changed none of 15 right predictions"
    assert figure.text == "0.500 [0.332, 0.668] of 30 texts"
    assert judged.cautions == (
        "pwws attacked 30 texts that are not like the others: accuracy 0.500 on them without "
        "attack, 0.690 on all.",
    )


def test_a_blind_or_targeted_attack_decides_nothing() -> None:
    blind = attack("pwws", 0.8, 0.8)
    blind["attack/pwws/unreliable_accuracy"] = blind.pop("attack/pwws/accuracy")
    judged = verdict(blind)
    assert judged.level == "untested"
    assert judged.headline.endswith("; its attacks saw no difference: pwws.")
    assert "no measure of robustness" in judged.of_kind("attack")[0].note
    assert judged.of_kind("attack")[0].doubted
    assert verdict({**attack("pwws", 0.8, 0.1), "attack/pwws/target": 1.0}).level == "untested"


@pytest.mark.parametrize(
    "recipe",
    [
        "input-reduction",
        {"name": "mine", "goal": {"class_path": "Unchanged"}},
        {"name": "mine", "goal": {"class_path": "attacks.goals.Unchanged", "init_args": {}}},
    ],
)
def test_an_attack_that_keeps_the_prediction_decides_nothing(recipe: Any) -> None:
    # Its accuracy is the share of right texts that cannot be shortened.
    judged = judge(
        metrics() | attack("mine", 0.8, 0.0), subjects={"attack/mine": {"recipe": recipe}}
    )
    assert judged.level == "untested"
    assert not judged.of_kind("attack")
    other = {"name": "mine", "goal": {"class_path": "Untargeted"}}
    figures = metrics() | attack("mine", 0.8, 0.0)
    assert judge(figures, subjects={"attack/mine": {"recipe": other}}).level == "fragile"


def test_an_attack_inside_a_threat_shows_no_robustness() -> None:
    inside = {"attack/charmer-k1": {"threat": {"name": "characters", "k": "1", "digest": "d"}}}
    figures = metrics() | attack("charmer-k1", 0.8, 0.79)
    assert judge(figures, subjects={}).level == "robust"
    judged = judge(figures, subjects=inside)
    assert judged.level == "partial"
    assert "under charmer-k1 (only changes of characters, k = 1), 0.800" in judged.headline
    assert "inside characters, k = 1" in judged.of_kind("attack")[0].note
    # What breaks a model inside a threat breaks it.
    assert judge(metrics() | attack("charmer-k1", 0.8, 0.1), subjects=inside).level == "fragile"
    free = figures | attack("charmer", 0.8, 0.79)
    assert judge(free, subjects=inside).level == "robust"


def test_an_attack_on_other_texts_than_the_test_decides_nothing() -> None:
    figures = metrics() | attack("pwws", 0.8, 0.79)
    subjects: dict[str, Any] = {"attack/pwws": {"split": "train"}}
    judged = judge(figures, subjects=subjects)
    assert judged.level == "untested"
    assert judged.of_kind("attack") == ()
    assert judge(figures, subjects={"attack/pwws": {"split": "test"}}).level == "robust"


def test_the_references_of_clean_accuracy() -> None:
    judged = verdict(accuracy=0.7, bag_accuracy=0.82, bag_macro_f1=0.81)
    figure = judged.figure("test/accuracy")
    assert figure is not None
    assert [r.value for r in figure.references] == [0.5, 0.82]
    assert judged.cautions == ("A bag of words, trained in seconds, has a higher accuracy: 0.820.",)
    assert verdict(accuracy=0.8, bag_accuracy=0.82).cautions == ()


def test_only_the_certificates_of_the_model_on_test_texts_count() -> None:
    figures = metrics() | words(0.7) | words(0.75, sets="a+b")
    subjects: dict[str, Any] = {
        "certify_pwws": {"split": "validation"},
        "certify_a+b": {"around": {"copies": 9}},
    }
    assert judge(figures, subjects=subjects).level == "untested"
    judged = judge(figures, subjects={})
    assert "0.750 certified against any number of changes of a and b" in judged.headline


def test_other_tasks_and_missing_figures() -> None:
    assert judge({}, subjects={}, run="r").headline.startswith("Not measured: `test --run r`")
    regression = judge({"test/spearman": 0.7}, subjects={}, classifies=False)
    assert (regression.level, regression.figures[0].text) == ("unmeasured", "0.700")
    old = {"test/accuracy": 0.8} | attack("pwws", 0.8, 0.8)
    assert judge(old, subjects={}).headline.startswith("Not judged")


@pytest.mark.parametrize("stored", [{"task": "regression"}, {"task": "tagging"}, {}])
def test_a_tested_model_without_classes_is_not_sent_to_the_test(
    tmp_path: Path, stored: dict[str, str]
) -> None:
    run, results = RunDirectory(tmp_path), cast("Results", {"metrics": {"test/accuracy": 0.9}})
    assert judge_run(run, results).headline.startswith("Not judged")
    run.best.parent.mkdir()
    torch.save({CHECKPOINT_KEY: {"format": CHECKPOINT_FORMAT, **stored}}, run.best)
    headline = judge_run(run, results).headline
    assert headline == "No verdict: this model does not predict classes of texts."


def test_an_older_run_is_judged_by_its_records(tmp_path: Path) -> None:
    figures = {"test/accuracy": 0.6} | attack("pwws", 0.6, 0.6)
    results = {"run": "r", "method": "m", "corpus": "c", "seed": 0, "metrics": figures}
    content = {**results, "seconds": {}, "versions": {}}
    (tmp_path / "results.json").write_text(json.dumps(content))
    lines = ({"sample_id": i, "label": int(i < 60), "prediction": 1} for i in range(100))
    (tmp_path / "pgd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = RunDirectory(tmp_path)
    stored = run.results()
    assert stored is not None
    judged = judge_run(run, stored)
    assert judged.collapsed
    assert judged.figures[0].text == "0.600 [0.502, 0.691] of 100 texts"


def test_the_share_of_other_classes() -> None:
    # Never the rare class: the share of the largest is the accuracy of a good model.
    rare = Predictions(labels=[0] * 98 + [1, 1], predictions=[0] * 99 + [1])
    assert (rare.absorbed, rare.collapsed) == (0.5, False)
    one = Predictions(labels=[0] * 98 + [1, 1], predictions=[0] * 100)
    assert (one.absorbed, one.collapsed) == (1.0, True)


def test_neither_torch_nor_numpy_is_imported() -> None:
    """`runs` judges all runs, and attacked ones need neither of them."""
    code = (
        "import sys; from measure.verdict import judge; "
        f"assert judge({metrics() | attack('pwws', 0.8, 0.5)}, subjects={{}}).level == 'fragile'; "
        "sys.exit(bool({'torch', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
