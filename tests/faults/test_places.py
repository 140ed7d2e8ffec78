"""Two programs in one place, and one run in several."""

import signal
import time
from pathlib import Path

import pytest

from tests.faults.conftest import FIT
from tests.faults.injection import KillAtHook
from tests.faults.program import Machine, Program
from tests.faults.settings import ALWAYS, TINY
from tests.faults.state import compare_runs, damage, left_over, step


def until(path: Path, program: Program) -> None:
    """Wait for a file that a program makes."""
    while not path.exists():
        assert program.running(), program.ended().err
        time.sleep(0.005)


def test_two_programs_on_one_run(machine: Machine) -> None:
    # A schedule of the learning rate would need an end.
    free = ["--model.optimisation.warmup=0", "--model.optimisation.decay=none"]
    endless = ["fit", *TINY, *free, "--trainer.max_epochs=-1", "--run=a", ALWAYS]
    first = machine.start(endless)
    run = machine.where / "runs" / "a"
    until(run / "checkpoints" / "last.ckpt", first)
    second = machine.run(endless)
    assert second.status == 1
    assert "another process trains or measures it" in second.err.splitlines()[-1]
    before = step(run)
    while step(run) < before + 3:  # the first one goes on
        assert first.running(), first.ended().err
    first.signal(signal.SIGTERM)
    outcome = first.ended()
    assert outcome.status == 143
    assert damage(run) == []
    # Killed, it leaves a lock file without a lock.
    third = machine.start(endless)
    before = step(run)
    while step(run) < before + 3:
        assert third.running(), third.ended().err
    assert third.kill().status == -9
    fourth = machine.run("fit", "--run=a", f"--trainer.max_steps={step(run) + 2}")
    assert fourth.status == 0, fourth.err


def test_moved_between_kills(machine: Machine, whole: Path) -> None:
    runs = machine.where / "runs"
    fault = KillAtHook("on_train_batch_start", calls=16)
    assert machine.run(FIT, "--run=a", ALWAYS, faults=[fault]).status == -9
    (machine.where / "elsewhere").mkdir()
    (runs / "a").rename(machine.where / "elsewhere" / "b")
    outcome = machine.run(FIT, "--runs_dir=elsewhere", "--run=b")
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, machine.where / "elsewhere" / "b") == []
    assert not (runs / "a").exists()


@pytest.mark.slow
def test_a_new_interpreter_goes_on(machine: Machine, whole: Path) -> None:
    # With other hash seeds, and nothing that a fork could have kept.
    run = machine.where / "runs" / "a"
    first = machine.start(FIT, "--run=a", ALWAYS, cold=True)
    until(run / "checkpoints" / "previous.ckpt", first)
    assert first.kill().status == -9
    assert damage(run) == []
    outcome = machine.run(FIT, "--run=a", cold=True)
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, run) == []
    assert left_over(run) == []
