"""A language model over characters that is killed and started again, and the one that was not."""

import pytest

from tests.faults.injection import KillAtHook
from tests.faults.program import Machine
from tests.faults.settings import ALWAYS, SHORT
from tests.faults.state import compare_runs
from tests.unit.datamodules.characters import write


@pytest.mark.parametrize(("attention", "batches"), [("l2_contractive", 8), ("lstm", 3)])
def test_killed_is_as_uninterrupted(machine: Machine, attention: str, batches: int) -> None:
    write(machine.where / "data" / "ptb_characters", train=50)
    command = [
        *("fit", "--model=CharacterLM", f"--model.attention={attention}"),
        *("--model.width=8", "--model.heads=2", "--model.depth=2", "--model.hidden=16"),
        *("--model.dropout=0.3", "--model.optimisation.warmup=5"),
        *("--data=PTBCharacters", "--data.data_dir=data", "--data.batch_size=8"),
        *(*SHORT, "--trainer.max_epochs=2"),
    ]
    assert machine.run(command, "--run=whole").status == 0
    fault = KillAtHook("on_train_batch_start", batches)
    killed = machine.run(command, ALWAYS, "--run=killed", faults=[fault])
    assert killed.status == -9, killed.err
    outcome = machine.run(command, "--run=killed")
    assert outcome.status == 0, outcome.err
    assert "resumes after step" in outcome.err
    runs = machine.where / "runs"
    assert compare_runs(runs / "whole", runs / "killed") == []
