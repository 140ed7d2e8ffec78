from pathlib import Path
from typing import Any

import pytest

from attacks.digests import file_digest
from lit_modules import CheckpointError
from run_files import results
from run_files.checkpoint_lookup import check_belongs, find_checkpoint
from run_files.harmless_settings import HARMLESS
from run_files.results import Stage
from run_files.run_directory import RunDirectory
from training.checkpoint_callbacks import AtomicCheckpointIO
from training.resume import Plan, check_same, newest_state, plan_training, with_additions

CONFIG: dict[str, Any] = {
    "seed_everything": 0,
    "model": {"class_path": "lit_modules.OLSA", "init_args": {"gamma": 1.0, "betas": [0.9, 0.99]}},
    "data": {"class_path": "datamodules.Reviews", "init_args": {"data_dir": None, "batch_size": 8}},
    "trainer": {"max_epochs": 3, "max_steps": -1, "devices": 1},
}


def changed(part: str, **settings: Any) -> dict[str, Any]:
    inner = CONFIG[part]
    if "init_args" in inner:
        return {**CONFIG, part: {**inner, "init_args": {**inner["init_args"], **settings}}}
    return {**CONFIG, part: {**inner, **settings}}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "a")
    run.write_config(CONFIG)
    return run


def finish(run: RunDirectory, *stages: Stage) -> None:
    identity = {"run": "a", "method": "OLSA", "corpus": "reviews", "seed": 0}
    for stage in stages:
        results.merge(run.results_path, stage, identity=identity, metrics={}, seconds=1)


def save(run: RunDirectory, *, step: int = 7, path: Path | None = None) -> Path:
    content = {
        "steadfast": {
            "format": 2,
            "method": "OLSA",
            "tokenizer": {},
            "class_names": [],
            "pairs": False,
        },
        "state_dict": {},
        "hyper_parameters": {},
        "global_step": step,
    }
    path = path or run.last
    AtomicCheckpointIO().save_checkpoint(content, path)
    return path


def test_a_new_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "new")
    assert plan_training(run, CONFIG, all_stages=True) == Plan(("fit", "test", "certify"))
    assert plan_training(run, CONFIG, all_stages=False) == Plan(("fit",))


def test_begun_without_checkpoint(run: RunDirectory) -> None:
    assert plan_training(run, CONFIG, all_stages=False) == Plan(("fit",))


def test_unfinished(run: RunDirectory) -> None:
    last = save(run)
    assert plan_training(run, CONFIG, all_stages=False) == Plan(("fit",), last, 7)
    assert plan_training(run, changed("trainer", devices=4), all_stages=False) == Plan(
        ("fit",), last, 7
    )


def test_some_stages_are_left(run: RunDirectory) -> None:
    save(run)
    finish(run, "fit", "certify")
    assert plan_training(run, CONFIG, all_stages=True) == Plan(("test",))


@pytest.mark.parametrize("whole", [True, False])
def test_finished(run: RunDirectory, whole: bool) -> None:
    save(run)
    finish(run, "fit", "test", "certify")
    with pytest.raises(ValueError, match="is finished"):
        plan_training(run, CONFIG, all_stages=whole)
    with pytest.raises(ValueError, match="is finished"):
        plan_training(run, changed("trainer", max_epochs=2), all_stages=whole)
    with pytest.raises(ValueError, match="is finished"):
        plan_training(run, changed("trainer", max_steps=10**9, max_epochs=None), all_stages=whole)


@pytest.mark.parametrize("limit", [{"max_epochs": 4}, {"max_epochs": -1}])
def test_longer(run: RunDirectory, limit: dict[str, Any]) -> None:
    last = save(run)
    finish(run, "fit", "test")
    plan = plan_training(run, changed("trainer", **limit), all_stages=True)
    assert plan == Plan(("fit", "test", "certify"), last, 7, reopened=True)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**CONFIG, "seed_everything": 1}, "seed_everything: 0 in the run, 1 given"),
        (changed("model", gamma=2.0), r"model\.gamma: 1\.0 in the run, 2\.0 given"),
        (changed("model", betas=[0.9, 0.9]), r"model\.betas"),
        (changed("data", batch_size=9), r"data\.batch_size: 8 in the run, 9 given"),
    ],
)
def test_other_settings(run: RunDirectory, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_training(run, config, all_stages=True)


def test_another_class_is_one_difference(run: RunDirectory) -> None:
    other = {**CONFIG, "model": {"class_path": "lit_modules.ASA", "init_args": {"alpha": 1.0}}}
    said = r"\(model.class_path: 'lit_modules.OLSA' in the run, 'lit_modules.ASA' given\)"
    with pytest.raises(ValueError, match=said):
        check_same(run, other, ("model", "data"), HARMLESS)


def test_harmless_settings(run: RunDirectory) -> None:
    plan_training(run, changed("data", data_dir="d"), all_stages=True)
    check_same(run, changed("data", batch_size=9, data_dir="d"), ("model", "data"), HARMLESS)
    # A setting that a newer version has is no difference; nothing can be said about it.
    check_same(run, changed("model", new=1), ("model", "data"), HARMLESS)


def test_a_run_gets_its_test_file_later(run: RunDirectory) -> None:
    own = {"class_path": "datamodules.TextFiles", "init_args": {"train": "a.tsv", "test": None}}
    run.write_config({**CONFIG, "data": own})

    def given(test: str | None) -> dict[str, Any]:
        return {**CONFIG, "data": {**own, "init_args": {"train": "a.tsv", "test": test}}}

    check_same(run, given("b.tsv"), ("model", "data"), HARMLESS)
    completed = with_additions(run.config(), given("b.tsv"))
    assert completed == given("b.tsv")
    assert with_additions(completed, given(None)) == given("b.tsv")
    run.write_config(completed)
    with pytest.raises(ValueError, match=r"data\.test: 'b\.tsv' in the run, 'c\.tsv' given"):
        check_same(run, given("c.tsv"), ("model", "data"), HARMLESS)
    # A run that has no such setting keeps none.
    assert with_additions(CONFIG, given("b.tsv")) == CONFIG


def test_another_number_of_processes(run: RunDirectory) -> None:
    smaller = changed("data", batch_size=4)
    with pytest.raises(ValueError, match=r"batch_size: 8 in the run, 4 given"):
        plan_training(run, smaller, all_stages=True)
    plan_training(run, {**smaller, "checkpoint": {"allow_world_change": True}}, all_stages=True)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_state_is_passed_over(
    run: RunDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    save(run, step=9)
    save(run, step=5, path=run.previous)
    assert newest_state(run) == (run.last, 9)
    damage(run.last)
    assert newest_state(run) == (run.previous, 5)
    assert "checksum does not match" in caplog.text
    assert f"going on from {run.previous} instead" in caplog.text
    assert plan_training(run, CONFIG, all_stages=False) == Plan(("fit",), run.previous, 5)


def test_a_missing_state_is_said(run: RunDirectory, caplog: pytest.LogCaptureFixture) -> None:
    save(run, step=5, path=run.previous)
    assert newest_state(run) == (run.previous, 5)
    assert f"{run.last} is missing" in caplog.text


def test_nothing_undamaged_is_left(run: RunDirectory) -> None:
    for path in (run.last, run.previous):
        damage(save(run, path=path))
    before = {path: path.read_bytes() for path in run.checkpoints.iterdir()}
    with pytest.raises(CheckpointError, match=r"no undamaged checkpoint.*last\.ckpt.*previous"):
        plan_training(run, CONFIG, all_stages=False)
    assert before == {path: path.read_bytes() for path in run.checkpoints.iterdir()}


def test_the_run_and_the_checkpoint_of_an_evaluation(run: RunDirectory, tmp_path: Path) -> None:
    def find(name: str | None, path: Path | None, **more: bool) -> tuple[str | None, Path]:
        found, checkpoint = find_checkpoint("diagnose", tmp_path, name, path, **more)
        return None if found is None else found.name, checkpoint

    save(run)
    alone = save(run, path=tmp_path / "alone.ckpt")
    assert find("a", None) == ("a", run.last)
    assert find(None, run.last) == ("a", run.last)
    assert find("a", run.last) == ("a", run.last)
    assert find(None, alone) == (None, alone)
    assert find("new", alone, begins=True) == ("new", alone)
    with pytest.raises(FileNotFoundError, match="got run 'new', which is not in"):
        find("new", alone)
    with pytest.raises(ValueError, match="got run 'a' and a checkpoint that is not of it"):
        find("a", alone)
    with pytest.raises(ValueError, match="got neither --run nor --ckpt_path"):
        find(None, None)


def test_which_checkpoints_belong_to_a_run(run: RunDirectory, tmp_path: Path) -> None:
    other = RunDirectory(tmp_path / "b")
    other.write_config(CONFIG)
    save(run)
    check_belongs(run, run.best)
    with pytest.raises(ValueError, match="got run 'b' and a checkpoint that is not of it"):
        check_belongs(other, run.last)
    # As an evaluation notes it; of that checkpoint only, and until the run is trained itself.
    other.write_source(file_digest(run.last), run.last)
    check_belongs(other, run.last)
    with pytest.raises(ValueError, match="not of it"):
        check_belongs(other, save(run, step=8, path=run.previous))
    save(other)
    with pytest.raises(ValueError, match="not of it"):
        check_belongs(other, run.last)
