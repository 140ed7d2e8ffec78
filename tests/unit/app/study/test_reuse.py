import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.study.cells import StudyContext
from app.study.reuse import UNREAD, OtherRunError, Rows, check_run, check_start, missing, rows
from app.study.study import Cell, Command, Stage
from attacks.digests import file_digest
from attacks.engine import VERSION
from measure.attack_names import file_names
from measure.attack_settings import AttackSettings, plan
from measure.text_attack import attack_subject
from run_files.run_directory import RunDirectory

SETTINGS: dict[str, Any] = {
    "seed_everything": 0,
    "model": {"class_path": "lit_modules.OLSA", "init_args": {"width": 8}},
    "data": {"class_path": "datamodules.Reviews", "init_args": {"limit_train": 50}},
    "trainer": {"max_epochs": None, "accelerator": "cpu", "precision": None},
    "checkpoint": {"monitor": "auto"},
    "early_stopping": {"patience": None},
}
STORED: dict[str, Any] = {
    **SETTINGS,
    "trainer": {"max_epochs": 10, "accelerator": "auto", "precision": None},
    "early_stopping": {"patience": 3},
    "on_nonfinite_loss": "stop",
}


def changed(**parts: Any) -> dict[str, Any]:
    return {
        key: {**SETTINGS[key], **parts[key]} if key in parts else SETTINGS[key] for key in SETTINGS
    }


def make(path: Path, *, about: dict[str, Any] | None = None, fit: bool = True) -> RunDirectory:
    run = RunDirectory(path)
    run.checkpoints.mkdir(parents=True)
    run.config_path.write_text(yaml.safe_dump(STORED))
    run.best.write_bytes(b"weights")
    stages = {**({"fit": 1.0} if fit else {}), **dict.fromkeys(about or {}, 1.0)}
    identity = {"run": path.name, "method": "OLSA", "corpus": "reviews", "seed": 0, "versions": {}}
    content = {**identity, "metrics": {}, "seconds": stages, "about": about or {}}
    run.results_path.write_text(json.dumps(content))
    return run


def stage(command: Command, **options: Any) -> Stage:
    return Stage(command=command, options=options)


# The run


def test_the_same_run(tmp_path: Path) -> None:
    check_run(RunDirectory(tmp_path / "none"), SETTINGS)
    check_run(make(tmp_path / "r"), SETTINGS)
    # Where and how fast it computes is no difference; what the method decided is none either.
    check_run(RunDirectory(tmp_path / "r"), changed(trainer={"accelerator": "gpu"}))
    # Nor is a setting of one evaluation.
    limited = changed(trainer={"limit_test_batches": 1})
    check_run(RunDirectory(tmp_path / "r"), limited, evaluation={"trainer.limit_test_batches"})
    with pytest.raises(OtherRunError, match="limit_test_batches"):
        check_run(RunDirectory(tmp_path / "r"), limited)


def test_a_run_older_than_detectors_is_no_detector(tmp_path: Path) -> None:
    detect = {"positive": None, "false_alarms": 0.01, "cost": None}
    check_run(make(tmp_path / "r"), {**SETTINGS, "detect": detect})
    with pytest.raises(OtherRunError, match=r'detect\.positive null in the run, "spam" in'):
        check_run(RunDirectory(tmp_path / "r"), {**SETTINGS, "detect": {"positive": "spam"}})


def test_a_run_without_its_settings_is_refused(tmp_path: Path) -> None:
    run = make(tmp_path / "r")
    run.config_path.unlink()
    with pytest.raises(OtherRunError, match=r"got run r without config\.yaml"):
        check_run(run, SETTINGS)
    # One that was killed before it had any is begun.
    (tmp_path / "s" / "checkpoints").mkdir(parents=True)
    check_run(RunDirectory(tmp_path / "s"), SETTINGS)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"model": {"init_args": {"width": 9}}}, "model.width 8 in the run, 9 in the study"),
        ({"trainer": {"max_epochs": 11}}, "trainer.max_epochs 10 in the run, 11 in the study"),
        ({"trainer": {"precision": "bf16-mixed"}}, 'trainer.precision null in the run, "bf16'),
        ({"data": {"init_args": {"limit_train": 9}}}, "data.limit_train 50 in the run, 9 in"),
        ({"checkpoint": {"monitor": "val/loss"}}, 'checkpoint.monitor "auto" in the run'),
    ],
)
def test_another_run_is_refused(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    with pytest.raises(OtherRunError, match="was made with other settings") as caught:
        check_run(make(tmp_path / "r"), changed(**other))
    assert said in str(caught.value)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    with pytest.raises(OtherRunError, match="seed_everything 0 in the run, 1 in the study"):
        check_run(make(tmp_path / "r"), {**SETTINGS, "seed_everything": 1})


# Stages


def test_a_test_is_used_again_if_nothing_has_changed(tmp_path: Path) -> None:
    settings = {**SETTINGS, "pgd": {"epsilon": 0}}
    found = rows(settings, "test")
    assert found is not None
    run = make(tmp_path / "r")
    whole = {"checkpoint": file_digest(run.best), "pgd": None, "rows": {"test": found.labelled}}
    for about, reason in (
        ({}, "not measured"),
        ({"test": whole}, None),
        ({"test": {**whole, "checkpoint": "other"}}, 'checkpoint "other"'),
        ({"test": {**whole, "rows": {"test": "other"}}}, "measured with rows"),
        ({"test": {**whole, "pgd": {"epsilon": 1}}}, "measured with pgd"),
        ({"test": {**whole, "limit_test_batches": 2}}, "measured with limit_test_batches 2"),
    ):
        run = make(tmp_path / str(reason), about=about)
        said = missing(run, stage("test"), settings)
        assert (said is None) if reason is None else (reason in str(said))


@pytest.mark.parametrize(("goal", "eligible"), [("evade", 3), ("force", 7)])
def test_a_goal_about_a_detector_has_fewer_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: str, eligible: int
) -> None:
    split = Rows("labelled", "complete", 10, {0: 7, 1: 3})
    text = {"class_names": ["ham", "spam"], "detector": {"positive": "spam"}}
    monkeypatch.setattr("app.study.reuse.rows", lambda *_: split)
    monkeypatch.setattr("app.study.reuse.checkpoint_text", lambda _: text)
    attack = AttackSettings(recipe="pwws", goal=goal)
    for samples, reason in ((eligible, None), (2, f"2 of {eligible} samples are done")):
        run = make(tmp_path / str(samples), about={"attack/pwws": {}})
        content = json.loads(run.results_path.read_text())
        content["metrics"] = {"attack/pwws/samples": samples}
        run.results_path.write_text(json.dumps(content))
        (run.path / "attacks").mkdir()
        about = {**attack.about(), "checkpoint": file_digest(run.best), "engine": VERSION}
        (run.path / "attacks" / "pwws.json").write_text(
            json.dumps({"about": {**about, "samples": "complete"}})
        )
        settings = {**SETTINGS, "attack": {"recipe": "pwws", "goal": goal, "num_samples": 100}}
        assert missing(run, stage("attack", recipe="pwws"), settings) == reason


def test_an_attack_is_used_again_if_nothing_has_changed(tmp_path: Path) -> None:
    def settings(**given: Any) -> dict[str, Any]:
        return {**SETTINGS, "attack": {"recipe": "pwws", "num_samples": 20, **given}}

    found = rows(SETTINGS, "test")
    assert found is not None
    run = make(tmp_path / "r", about={"attack/pwws": {}})
    content = json.loads(run.results_path.read_text())
    content["metrics"] = {"attack/pwws/samples": 20}
    run.results_path.write_text(json.dumps(content))
    about = {
        **AttackSettings(recipe="pwws").about(),
        "candidates": None,
        "checkpoint": file_digest(run.best),
        "engine": VERSION,
        "samples": found.complete,
    }
    (run.path / "attacks").mkdir()
    (run.path / "attacks" / "pwws.json").write_text(json.dumps({"about": about}))
    attack = stage("attack", recipe="pwws")
    assert missing(run, attack, settings()) is None
    assert missing(run, attack, settings(num_samples=10)) is None
    assert missing(run, attack, settings(num_samples=30)) == "20 of 30 samples are done"
    assert "score" in str(missing(run, attack, settings(score="probability")))
    threat = {"kind": "words", "k": 1}
    assert "threat.name null, not" in str(missing(run, attack, settings(threat=threat)))
    assert missing(run, stage("attack", recipe="pwws", tag="x"), settings(tag="x")) == (
        "pwws-x has not ended"
    )


def attacked(tmp_path: Path, recipe: str, **options: Any) -> RunDirectory:
    """A run with 20 samples of one attack, as the command `attack` stores it."""
    found = rows(SETTINGS, "test")
    assert found is not None
    given = AttackSettings(recipe=recipe, **options)
    (name,) = file_names(recipe, None)
    run = make(tmp_path / "r", about={f"attack/{name}": {}})
    content = json.loads(run.results_path.read_text())
    content["metrics"] = {f"attack/{name}/samples": 20}
    run.results_path.write_text(json.dumps(content))
    (planned,) = plan(given)
    about = {
        **attack_subject(planned, given),
        "split": "test",
        "checkpoint": file_digest(run.best),
        "samples": found.complete,
    }
    (run.path / "attacks").mkdir()
    (run.path / "attacks" / f"{name}.json").write_text(json.dumps({"about": about}))
    return run


def test_an_attack_of_your_own_whose_file_has_changed_is_another_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    spec: dict[str, Any] = {
        "transformation": {"class_path": "SwapCharacters"},
        "search": {"class_path": "Beam", "init_args": {"width": 4, "depth": 3}},
        "constraints": [],
    }
    file.write_text(yaml.safe_dump(spec))
    run = attacked(tmp_path, str(file))
    attack = stage("attack", recipe=str(file))
    settings = {**SETTINGS, "attack": {"recipe": str(file), "num_samples": 20}}
    assert missing(run, attack, settings) is None
    file.write_text(yaml.safe_dump({**spec, "constraints": [{"class_path": "EditDistance"}]}))
    assert "measured with recipe.constraints" in str(missing(run, attack, settings))
    file.write_text(yaml.safe_dump({k: v for k, v in spec.items() if k != "constraints"}))
    assert "measured with recipe.constraints" in str(missing(run, attack, settings))


def test_an_ensemble_of_other_attacks_is_another_one(tmp_path: Path) -> None:
    def settings(recipe: str, **options: Any) -> dict[str, Any]:
        return {**SETTINGS, "attack": {"recipe": recipe, "num_samples": 20, **options}}

    def reason(recipe: str, **options: Any) -> str | None:
        return missing(run, stage("attack", recipe=recipe), settings(recipe, **options))

    run = attacked(tmp_path, "worst:deepwordbug,unicode")
    assert reason("worst:deepwordbug,unicode") is None
    assert "measured with recipes" in str(reason("worst:deepwordbug,case"))
    assert "deepwordbug.ranking" in str(reason("worst:deepwordbug,unicode", ranking="gradient"))


def test_an_attack_in_another_language_is_another_one(tmp_path: Path) -> None:
    run, attack = attacked(tmp_path, "deepwordbug"), stage("attack", recipe="deepwordbug")
    settings = {"recipe": "deepwordbug", "num_samples": 20}
    assert missing(run, attack, {**SETTINGS, "attack": settings}) is None
    german = {**SETTINGS, "attack": {**settings, "language": "german"}}
    assert "measured with language" in str(missing(run, attack, german))


def test_a_part_of_the_split_is_no_test_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.study.reuse._missing_fit", lambda *_: None)
    settings = {**SETTINGS, "pgd": {"epsilon": 0}, "radii": []}
    found = rows(settings, "test")
    assert found is not None
    of = {"checkpoint": "", "rows": {"test": found.labelled}}
    for limit, reason in ((None, None), (2, "measured with limit_test_batches 2, not null")):
        run = make(tmp_path / str(limit))
        content = json.loads(run.results_path.read_text())
        of["checkpoint"] = file_digest(run.best)
        part = {} if limit is None else {"limit_test_batches": limit}
        content["about"] = {"test": {**of, "pgd": None, **part}, "certify": {**of, "radii": []}}
        content["seconds"] = {"fit": 1.0, "test": 1.0, "certify": 1.0}
        run.results_path.write_text(json.dumps(content))
        assert missing(run, stage("train"), settings) == reason


def test_an_unfinished_training_goes_on(tmp_path: Path) -> None:
    assert missing(make(tmp_path / "r", fit=False), stage("fit"), SETTINGS) == "not trained"


def test_rows_of_a_limited_corpus_depend_on_the_seed() -> None:
    digests = {
        (split, seed): rows({**SETTINGS, "seed_everything": seed}, split)
        for split in ("train", "test")
        for seed in (0, 1)
    }
    assert digests["train", 0] != digests["train", 1]
    assert digests["test", 0] == digests["test", 1]


# The run that a run begins with


def tied(where: Path) -> tuple[Cell, StudyContext]:
    place = StudyContext(study="small", runs_dir=Path("runs"))
    path = "small-first-s0/backbone"
    cell = Cell(
        row="second",
        corpus="",
        seed=0,
        run="small-second-s0",
        config=(),
        settings={"model.backbone.pretrained": f"runs/{path}"},
        stages=(),
        after="small-first-s0",
        start={"model.backbone.pretrained": path},
    )
    folder = where / "runs" / path
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"first")
    return cell, place


def test_rows_of_a_file_whose_classes_are_not_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.tsv"
    file.write_text("text\tlabel\ngood\tfine\nbad\tpoor\nawful\tpoor\n")
    paths = dict.fromkeys(("train", "validation", "test"), str(file))
    settings = {
        "seed_everything": 0,
        "data": {"class_path": "datamodules.TextFiles", "init_args": paths},
    }
    read = rows(settings, "test")
    assert read is not None
    assert (read.total, dict(read.labels)) == (3, {0: 1, 1: 2})


def test_a_run_that_began_with_other_weights_is_refused(tmp_path: Path) -> None:
    cell, place = tied(tmp_path)
    weights = tmp_path / "runs/small-first-s0/backbone/model.safetensors"
    check_start(cell, place, tmp_path, begun=False)
    check_start(cell, place, tmp_path, begun=True)
    weights.write_bytes(b"second")
    with pytest.raises(OtherRunError, match=r"^run small-second-s0 began with other weights than"):
        check_start(cell, place, tmp_path, begun=True)
    note = tmp_path / "runs/studies/small/starts/small-second-s0.json"
    kept = note.read_text()
    note.write_text("[")
    with pytest.raises(OtherRunError, match=r"starts/small-second-s0.json with unreadable content"):
        check_start(cell, place, tmp_path, begun=True)
    note.write_text(kept)
    # A run that is made anew begins with what is there now.
    check_start(cell, place, tmp_path, begun=False)
    check_start(cell, place, tmp_path, begun=True)


def test_the_directory_of_runs_may_have_another_name(tmp_path: Path) -> None:
    def settings(path: str) -> dict[str, Any]:
        return changed(model={"init_args": {"backbone": {"pretrained": path}}})

    run = make(tmp_path / "r")
    run.config_path.write_text(yaml.safe_dump({**STORED, **settings("runs/first/backbone")}))
    start = {"model.backbone.pretrained": "first/backbone"}
    check_run(run, settings("/home/me/runs/first/backbone"), start)
    with pytest.raises(OtherRunError, match="made with other settings"):
        check_run(
            run,
            settings("/home/me/runs/second/backbone"),
            {"model.backbone.pretrained": "second/backbone"},
        )
    with pytest.raises(OtherRunError, match="made with other settings"):
        check_run(run, settings("/home/me/runs/first/backbone"))


def test_a_setting_that_is_new_in_the_program_is_no_difference(tmp_path: Path) -> None:
    run = make(tmp_path / "r")

    def settings(**own: Any) -> dict[str, Any]:
        args = {"width": 8, **own}
        return changed(model={"class_path": "lit_modules.TextClassifier", "init_args": args})

    run.config_path.write_text(yaml.safe_dump({**STORED, "model": settings()["model"]}))
    check_run(run, settings(attention={"kind": "scaled_dot_product", "window": 15}, depth=2))
    with pytest.raises(OtherRunError, match=r"model.attention.kind null in the run, .*revcos"):
        check_run(run, settings(attention={"kind": "revcos"}))


def test_a_run_is_recognised_without_data(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    stored = {**STORED, "model": {**STORED["model"], "init_args": {"lists": "d/l.gz", "width": 8}}}
    run.config_path.write_text(yaml.safe_dump(stored))

    def asked(width: int) -> dict[str, Any]:
        own = {"lists": "${data_dir}/l.gz", "width": width}
        return {**SETTINGS, "model": {**SETTINGS["model"], "init_args": own}}

    check_run(run, asked(8))
    with pytest.raises(OtherRunError, match="width"):
        check_run(run, asked(9))
    absent = {"class_path": "datamodules.SST2", "init_args": {"data_dir": str(tmp_path / "none")}}
    assert rows({**SETTINGS, "data": absent, UNREAD: True}, "test") is None
