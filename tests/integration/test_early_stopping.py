"""When a fit ends: the limit of the method, early stopping, and how a run goes on after it."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests.integration.conftest import OLSA, QUIET, Steadfast, results
from training.trainer import RobustTrainer

# So small steps that no prediction changes: the figure is the same after each epoch.
STILL = [
    *OLSA,
    *("--model.optimisation.optimizer=AdamW", "--model.optimisation.optimizer.lr=1e-6"),
    *(
        "--model.optimisation.warmup=0",
        "--model.optimisation.decay=none",
        "--model.objective.schedule.shape=constant",
    ),
    *("--data=Reviews", "--data.limit_train=32", "--data.batch_size=16"),
    *(*QUIET, "--trainer.limit_val_batches=1"),
]


def checkpoint(run: str) -> dict[str, Any]:
    path = f"runs/{run}/checkpoints/last.ckpt"
    content: dict[str, Any] = torch.load(path, weights_only=True)
    return content


def epochs(run: str) -> int:
    return int(checkpoint(run)["epoch"]) + 1


def test_a_fit_without_limits_ends(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("fit", STILL, "--run=a")
    assert outcome.status == 0, outcome.err
    assert "training ends: val/accuracy has not got better than" in outcome.err
    assert epochs("a") == 6  # the first is the best, and five more
    config = yaml.safe_load(Path("runs/a/config.yaml").read_text())
    assert config["trainer"]["max_epochs"] == 20
    assert config["early_stopping"] == {"patience": 5}

    outcome = steadfast("fit", STILL, "--run=a")
    assert outcome.status == 1
    assert "run 'a' is finished" in outcome.err
    assert steadfast("fit", "--run=a", "--early_stopping.patience=6").status == 0
    assert epochs("a") == 12  # it has its patience again
    assert steadfast("fit", "--run=a", "--trainer.max_epochs=11").status == 1  # less than 20
    assert steadfast("fit", "--run=a", "--trainer.max_epochs=21").status == 0
    assert epochs("a") == 18


def test_what_is_asked_for_is_trained(here: Path, steadfast: Steadfast) -> None:
    assert steadfast("fit", STILL, "--run=epochs", "--trainer.max_epochs=6").status == 0
    assert epochs("epochs") == 6
    assert steadfast("fit", STILL, "--run=steps", "--trainer.max_steps=11").status == 0
    assert checkpoint("steps")["global_step"] == 11
    watched = ["--trainer.max_epochs=6", "--early_stopping.patience=1"]
    assert steadfast("fit", STILL, "--run=watched", watched).status == 0
    assert epochs("watched") == 2
    # Begun from another run's weights, it is not compared with that one's figures.
    last = "--ckpt_path=runs/watched/checkpoints/last.ckpt"
    assert steadfast("fit", STILL, "--run=new", watched, last).status == 0
    assert epochs("new") == 4


def test_a_resumed_run_ends_where_it_would_have_ended(here: Path, steadfast: Steadfast) -> None:
    whole = [*STILL, "--early_stopping.patience=3", "--trainer.max_epochs=20"]
    assert steadfast("fit", whole, "--run=whole").status == 0
    assert steadfast("fit", whole, "--trainer.max_epochs=3", "--run=parts").status == 0
    assert steadfast("fit", whole, "--run=parts").status == 0
    assert epochs("whole") == epochs("parts") == 4
    found, wanted = checkpoint("parts")["state_dict"], checkpoint("whole")["state_dict"]
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    # Killed between its last checkpoint and its results: nothing is left to train.
    Path("runs/parts/results.json").unlink()
    assert steadfast("fit", whole, "--run=parts").status == 0
    assert epochs("parts") == 4
    assert set(results("parts")["seconds"]) == {"fit"}
    assert "stopped_epoch" in str(checkpoint("parts")["callbacks"])


def kill_before_the_record(*args: object, **_: object) -> None:
    msg = "killed"
    raise RuntimeError(msg)


@pytest.mark.parametrize("reopened", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_that_ended_early_and_is_not_recorded_has_ended(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch, reopened: bool
) -> None:
    fit = ["fit", *STILL, "--trainer.max_epochs=20", "--run=a"]
    patience, ended = ("--early_stopping.patience=1", 2)
    if reopened:
        assert steadfast(fit, patience).status == 0
        patience, ended = ("--early_stopping.patience=2", 4)
    with monkeypatch.context() as killed:
        killed.setattr(RobustTrainer, "_finish", kill_before_the_record)
        assert steadfast(fit, patience).status == 1
    assert epochs("a") == ended
    # A test of the weights so far makes a `results.json`, too.
    assert steadfast("test", "--run=a", QUIET, "--trainer.limit_test_batches=1").status == 0
    assert "fit" not in results("a")["seconds"]
    assert steadfast(fit, patience).status == 0
    assert epochs("a") == ended
    assert "fit" in results("a")["seconds"]


@pytest.mark.parametrize("monitor", ["null", "val/loss"])
def test_other_figures(here: Path, steadfast: Steadfast, monitor: str) -> None:
    given = ["--early_stopping.patience=2", "--trainer.max_epochs=5"]
    assert steadfast("fit", STILL, given, f"--checkpoint.monitor={monitor}", "--run=a").status == 0
    # The loss moves with every step (here up: the reward for the radius outweighs it); the task's
    # own figure stays what it is.
    assert epochs("a") == (3 if monitor == "null" else 5)


def test_without_validation_nothing_is_watched(here: Path, steadfast: Steadfast) -> None:
    given = ["--early_stopping.patience=1", "--trainer.max_epochs=3"]
    assert steadfast("fit", STILL, given, "--run=a", "--trainer.limit_val_batches=0").status == 0
    assert epochs("a") == 3
