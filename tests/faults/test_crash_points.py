"""Killed just before each change that it makes to its directory, a run loses nothing."""

from pathlib import Path

import pytest

from tests.faults.conftest import FIT
from tests.faults.injection import KillAtChange
from tests.faults.program import Machine
from tests.faults.settings import ATTACK, TINY
from tests.faults.state import compare_runs, damage, left_over

TRAIN = ["train", *TINY, *ATTACK, "--trainer.max_epochs=2"]


def changes(machine: Machine, command: list[str]) -> tuple[Path, list[str]]:
    """A run without interruption, and what it does to its directory."""
    log = machine.where / "changes"
    fault = KillAtChange("runs/whole", survived=10**9, log=str(log))
    outcome = machine.run(command, "--run=whole", faults=[fault])
    assert outcome.status == 0, outcome.err
    return machine.where / "runs" / "whole", log.read_text().splitlines()


def killed_at(machine: Machine, command: list[str], number: int) -> Path:
    """A run that was killed before this change, and then was started again."""
    fault = KillAtChange(f"runs/{number}", survived=number)
    killed = machine.run(command, f"--run={number}", faults=[fault])
    assert killed.status == -9, killed.err
    run = machine.where / "runs" / str(number)
    assert damage(run) == []
    outcome = machine.run(command, f"--run={number}")
    # Killed before the very last event, it has written everything else.
    assert outcome.status == 0 or "is finished" in outcome.err, outcome.err
    return run


def test_killed_while_a_checkpoint_takes_its_place(machine: Machine) -> None:
    whole, made = changes(machine, FIT)
    # Of the second epoch: the first checkpoint replaces none.
    second = made.index("rename checkpoints/.previous.ckpt.N.part -> checkpoints/previous.ckpt")
    assert made[second - 1 : second + 3] == [
        "link checkpoints/last.ckpt -> checkpoints/.previous.ckpt.N.part",
        "rename checkpoints/.previous.ckpt.N.part -> checkpoints/previous.ckpt",
        "open checkpoints/.last.ckpt.N.part",
        "rename checkpoints/.last.ckpt.N.part -> checkpoints/last.ckpt",
    ]
    run = killed_at(machine, FIT, second + 2)
    assert compare_runs(whole, run) == []
    assert left_over(run) == []


@pytest.mark.slow
def test_killed_at_every_change(machine: Machine) -> None:
    whole, made = changes(machine, TRAIN)
    assert len(made) > 20
    for number, change in enumerate(made):
        if made[number - 1 : number] == [change]:
            continue  # TensorBoard opens its file for each event
        if " report/" in change:
            continue  # behind the last stage; `report` writes it again
        run = killed_at(machine, TRAIN, number)
        assert compare_runs(whole, run) == [], change
        assert left_over(run) == [], change
        print(f"killed before {change}: nothing lost")
