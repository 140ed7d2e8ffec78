"""A run that began with the checkpoint of another run is killed."""

from pathlib import Path

import pytest

from tests.faults.injection import Fault, KillAtHook
from tests.faults.program import Machine
from tests.faults.settings import ALWAYS, TINY
from tests.faults.state import compare_runs

FIT = ["fit", *TINY, "--trainer.max_epochs=3"]
FROM = "--ckpt_path=runs/source/checkpoints/last.ckpt"
EARLY = KillAtHook("on_train_batch_start", 2)
LATER = KillAtHook("on_train_batch_start", 5)
BEFORE_LAST = KillAtHook("_save", owner=("training.checkpoint_callbacks", "LastCheckpoint"))


@pytest.fixture
def runs(machine: Machine) -> Path:
    assert machine.run("fit", TINY, "--trainer.max_epochs=1", "--run=source").status == 0
    outcome = machine.run(FIT, FROM, "--run=whole")
    assert outcome.status == 0, outcome.err
    return machine.where / "runs"


@pytest.mark.parametrize(
    ("fault", "again"),
    [
        pytest.param(EARLY, ["fit"], id="before its first checkpoint, by name"),
        pytest.param(LATER, [*FIT, FROM], id="same command"),
        # With `best.ckpt` of its own, and no state.
        pytest.param(BEFORE_LAST, [*FIT, FROM], id="between its first two checkpoints"),
    ],
)
def test_it_resumes(machine: Machine, runs: Path, fault: Fault, again: list[str]) -> None:
    often = [ALWAYS] if fault is LATER else []
    machine.run(FIT, FROM, often, "--run=parts", faults=[fault])
    outcome = machine.run(again, "--run=parts")
    assert outcome.status == 0, outcome.err
    assert compare_runs(runs / "whole", runs / "parts") == []


def test_its_beginning_has_changed(machine: Machine, runs: Path) -> None:
    machine.run(FIT, FROM, "--run=parts", faults=[EARLY])
    last = runs / "source" / "checkpoints" / "last.ckpt"
    last.rename(last.with_name("moved.ckpt"))
    outcome = machine.run("fit", "--run=parts")
    assert outcome.status == 1
    assert f"began with that of {last}, which is gone" in outcome.err
    moved = "--ckpt_path=runs/source/checkpoints/moved.ckpt"
    assert machine.run("fit", moved, "--run=parts").status == 0
    assert compare_runs(runs / "whole", runs / "parts") == []
