"""Errors in the middle of training: the next start is as if there had been none."""

from pathlib import Path

import pytest
import torch

from tests.faults.conftest import FIT
from tests.faults.injection import Clock, KillWorker, NotANumber, Raises, RaisesInMetrics
from tests.faults.program import Machine
from tests.faults.settings import ALWAYS, BATCHES
from tests.faults.state import checkpoint, compare_runs, damage, step

FAR = ["--model.optimisation.optimizer=torch.optim.SGD", "--model.optimisation.optimizer.lr=1e30"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Raises("on_train_batch_start", calls=BATCHES + 5), marks=pytest.mark.slow),
        Raises("optimizer_step", calls=BATCHES + 5),
        # Two batches before training, two after the first epoch.
        Raises("on_validation_batch_start", calls=5),
        # Between the checkpoint of a step and the row of its metrics.
        RaisesInMetrics(7),
    ],
    ids=["batch", "step", "validation", "metrics"],
)
def test_an_error(machine: Machine, whole: Path, fault: Raises | RaisesInMetrics) -> None:
    outcome = machine.run(FIT, "--run=a", ALWAYS, faults=[fault])
    assert outcome.status == 1
    assert outcome.err.splitlines()[-1] == "error: RuntimeError: planted (--debug shows where)"
    outcome = machine.run(FIT, "--run=a")
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, machine.where / "runs" / "a") == []


def test_a_killed_worker(machine: Machine, whole: Path) -> None:
    two = "--data.num_workers=2"
    outcome = machine.run(FIT, "--run=a", ALWAYS, two, faults=[KillWorker(5)])
    assert outcome.status == 1
    assert "a process that --data.num_workers has started is gone" in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err
    outcome = machine.run(FIT, "--run=a", two)
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, machine.where / "runs" / "a") == []


def test_a_loss_that_is_no_number_stops(machine: Machine) -> None:
    # The first step carries the weights away, the second meets what is no number.
    outcome = machine.run(FIT, "--run=a", ALWAYS, FAR)
    assert outcome.status == 1
    line = outcome.err.splitlines()[-1]
    assert line.startswith("error: got a loss that is not finite at epoch 0, step 1, on samples ")
    assert "The last good checkpoint is " in line
    assert "last.ckpt" in line
    run = machine.where / "runs" / "a"
    assert damage(run) == []
    assert step(run) == 1
    assert not (run / "results.json").exists()


@pytest.mark.slow
def test_after_the_cause_is_gone(machine: Machine, whole: Path) -> None:
    outcome = machine.run(FIT, "--run=a", ALWAYS, faults=[NotANumber(6)])
    assert outcome.status == 1
    assert step(machine.where / "runs" / "a") == 6
    outcome = machine.run(FIT, "--run=a")
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, machine.where / "runs" / "a") == []


def test_a_step_is_left_out(machine: Machine) -> None:
    skip = "--on_nonfinite_loss=skip"
    outcome = machine.run(FIT, "--run=a", skip, faults=[NotANumber(6)])
    assert outcome.status == 0, outcome.err
    assert outcome.err.count("left out: gradient not finite, on samples ") == 1
    for tensor in checkpoint(machine.where / "runs" / "a")["state_dict"].values():
        assert bool(torch.isfinite(tensor).all())


@pytest.mark.slow
def test_weights_that_stay_unusable_end_the_run(machine: Machine) -> None:
    outcome = machine.run(FIT, "--run=a", FAR, "--on_nonfinite_loss=skip")
    assert outcome.status == 1
    assert "steps in a row" in outcome.err.splitlines()[-1]
    assert not (machine.where / "runs" / "a" / "results.json").exists()


@pytest.mark.slow
def test_a_clock_that_jumps_back(machine: Machine, whole: Path) -> None:
    back = Clock("on_train_batch_start", seconds=-1e6)
    outcome = machine.run(FIT, "--run=a", faults=[back])
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, machine.where / "runs" / "a") == []
