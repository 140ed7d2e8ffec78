import json
import logging
from pathlib import Path
from typing import Any

import pytest

from lit_modules import CheckpointError
from run_files import results
from run_files.run_directory import RunDirectory
from run_files.weights import about_to_be_replaced, keep_apart, shelf, warn_unfinished, weights_of
from training.checkpoint_callbacks import AtomicCheckpointIO

IDENTITY: dict[str, Any] = {"run": "a", "method": "OLSA", "corpus": "reviews", "seed": 0}
STEADFAST = {"format": 2, "method": "OLSA", "tokenizer": {}, "class_names": [], "pairs": False}


def save(path: Path, *, step: int, epoch: int = 0) -> Path:
    content = {
        "steadfast": STEADFAST,
        "state_dict": {},
        "hyper_parameters": {},
        "global_step": step,
        "epoch": epoch,
    }
    AtomicCheckpointIO().save_checkpoint(content, path)
    return path


def measure(run: RunDirectory, checkpoint: Path, stage: str = "test") -> None:
    """What an evaluation leaves, and files as predictions and attacks leave them."""
    results.merge(
        run.results_path,
        stage,
        identity=IDENTITY,
        metrics={f"{stage}/accuracy": 0.5},
        seconds=1,
        subject=weights_of(checkpoint).about(),
    )
    run.predictions.write_text("{}\n")
    (run.path / "attacks").mkdir(exist_ok=True)
    (run.path / "attacks" / "pwws.jsonl").write_text("{}\n")


def fitted(run: RunDirectory) -> None:
    figures = {"val/accuracy": 0.75}
    results.merge(run.results_path, "fit", identity=IDENTITY, metrics=figures, seconds=2)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "a")
    run.write_config({"trainer": {"max_epochs": 9}})
    save(run.last, step=7, epoch=2)
    return run


def names(path: Path) -> list[str]:
    files = (one for one in path.rglob("*") if one.is_file() and one.suffix != ".lock")
    return sorted(str(one.relative_to(path)) for one in files)


def test_weights_say_where_they_are_from(run: RunDirectory, tmp_path: Path) -> None:
    found = weights_of(run.last)
    assert (found.file, found.epoch, found.step, found.training_ended) == ("last.ckpt", 3, 7, False)
    assert found.label == f"step-7-{found.checkpoint[:12]}"
    fitted(run)
    assert weights_of(run.last).training_ended is True
    assert weights_of(save(tmp_path / "alone.ckpt", step=1)).training_ended is None
    with pytest.raises(CheckpointError, match="not found"):
        weights_of(run.best)


def test_the_chosen_weights_have_the_run_and_others_a_folder(run: RunDirectory) -> None:
    assert shelf(run, weights_of(run.last)).path == run.path
    save(run.best, step=4)
    assert shelf(run, weights_of(run.best)).path == run.path
    apart = shelf(run, weights_of(run.last))
    assert apart.path == run.path / "others" / weights_of(run.last).label
    assert apart.name == "a"


def test_a_new_best_sets_aside_what_the_old_one_gave(
    run: RunDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    fitted(run)
    save(run.best, step=4)
    measure(run, run.best)
    label = weights_of(run.best).label
    with caplog.at_level(logging.WARNING, "run_files.run_directory"):
        about_to_be_replaced(run, run.last)  # which nothing was measured of
        assert run.predictions.is_file()
        about_to_be_replaced(run, run.best)
    assert names(run.path) == [
        "checkpoints/best.ckpt",
        "checkpoints/last.ckpt",
        "config.yaml",
        f"others/{label}/attacks/pwws.jsonl",
        f"others/{label}/predictions.jsonl",
        f"others/{label}/results.json",
        "results.json",
    ]
    left = run.results()
    assert left is not None
    assert (left["metrics"], set(left["seconds"])) == ({"val/accuracy": 0.75}, {"fit"})
    moved = run.apart(label).results()
    assert moved is not None
    assert moved["metrics"]["test/accuracy"] == 0.5
    assert "set aside in" in caplog.text
    # Again, with the same weights: nothing is overwritten.
    measure(run, run.best)
    about_to_be_replaced(run, run.best)
    assert run.apart(f"{label}_2").predictions.is_file()


def test_the_last_weights_are_replaced_where_there_are_no_best(run: RunDirectory) -> None:
    measure(run, run.last)
    about_to_be_replaced(run, run.last)
    assert not run.predictions.exists()
    measure(run, run.last)
    about_to_be_replaced(run, run.best)  # from here on, that one is the run's
    assert not run.predictions.exists()


def test_nothing_measured_nothing_moved(run: RunDirectory) -> None:
    fitted(run)
    before = names(run.path)
    about_to_be_replaced(run, run.last)
    assert names(run.path) == before


def test_damaged_weights_are_set_aside_as_well(run: RunDirectory) -> None:
    measure(run, run.last)
    run.last.write_bytes(b"PK")
    about_to_be_replaced(run, run.last)
    assert run.apart("unknown").predictions.is_file()


def test_what_is_of_other_weights_makes_room(run: RunDirectory) -> None:
    measure(run, run.last)
    keep_apart(run, weights_of(run.last))
    assert run.predictions.is_file()
    before = weights_of(run.last).label
    save(run.last, step=8)
    keep_apart(run, weights_of(run.last))
    assert not run.predictions.exists()
    assert json.loads(run.apart(before).results_path.read_text())["metrics"]


def test_a_killed_move_is_gone_on_with(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it ends, a figure stands beside its own weights or nowhere."""
    measure(run, run.last)

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            about_to_be_replaced(run, run.last)
    about_to_be_replaced(run, run.last)
    assert run.measured() == []
    assert len(list(run.path.glob("others/*/predictions.jsonl"))) == 1


def test_a_killed_move_of_what_is_of_other_weights_is_gone_on_with(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(run, run.last)
    save(run.last, step=8)

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            keep_apart(run, weights_of(run.last))
    keep_apart(run, weights_of(run.last))
    assert run.measured() == []
    assert len(list(run.path.glob("others/*/attacks/pwws.jsonl"))) == 1


def test_an_unfinished_training_is_said(
    run: RunDirectory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warning = (
        "run 'a' has not ended its training (it has reached epoch 3 of 9, step 7): "
        "these figures are preliminary"
    )
    warn_unfinished(run.last)
    warn_unfinished(save(run.best, step=1))
    assert caplog.messages == [warning, warning]
    warn_unfinished(save(tmp_path / "alone.ckpt", step=1))
    fitted(run)
    warn_unfinished(run.last)
    assert caplog.messages == [warning, warning]
