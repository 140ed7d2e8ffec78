"""A killed run resumes exactly, also where Lightning validates or reloads at other times."""

import pytest

from tests.faults.injection import KillAtHook
from tests.faults.program import Machine
from tests.faults.settings import ALWAYS, BATCHES, TINY
from tests.faults.state import compare_runs, step

INSIDE = ["--trainer.val_check_interval=3", "--trainer.max_epochs=2"]
TOTAL = [
    *("--trainer.val_check_interval=5", "--trainer.check_val_every_n_epoch=null"),
    "--trainer.max_epochs=2",
]
SUMMED = [*INSIDE, "--trainer.accumulate_grad_batches=2"]
RELOADED = ["--trainer.reload_dataloaders_every_n_epochs=1", "--trainer.max_epochs=3"]
OVERFIT = ["--trainer.overfit_batches=3", "--trainer.max_epochs=3"]


@pytest.mark.parametrize(
    ("settings", "hook", "calls"),
    [
        # The checkpoint before these batches is that of the batch after which a validation ran.
        pytest.param(INSIDE, "on_train_batch_start", 3, id="after a validation in the epoch"),
        # Two batches before training, two at the first validation.
        pytest.param(INSIDE, "on_validation_batch_start", 5, id="in a validation in the epoch"),
        pytest.param(TOTAL, "on_train_batch_start", 5, id="after a validation by batches"),
        pytest.param(SUMMED, "on_train_batch_start", 6, id="after a validation between steps"),
        pytest.param(RELOADED, "on_train_batch_start", 18, id="with loaders of each epoch"),
        pytest.param(OVERFIT, "on_train_batch_start", 4, id="with the same batches"),
    ],
)
def test_other_loops(machine: Machine, settings: list[str], hook: str, calls: int) -> None:
    fit = ["fit", *TINY, *settings]
    outcome = machine.run(fit, "--run=whole")
    assert outcome.status == 0, outcome.err
    machine.run(fit, "--run=parts", ALWAYS, faults=[KillAtHook(hook, calls)])
    outcome = machine.run(fit, "--run=parts", ALWAYS)
    assert outcome.status == 0, outcome.err
    runs = machine.where / "runs"
    assert compare_runs(runs / "whole", runs / "parts") == []


def test_a_wish_to_stop_outlives_a_kill(machine: Machine) -> None:
    # Its figure gets better after a validation without progress: the fit still ends at
    # `min_epochs`, as Lightning keeps the wish to stop.
    fit = ["fit", *TINY, "--seed=8", "--trainer.limit_train_batches=3", "--trainer.max_epochs=9"]
    fit += ["--trainer.min_epochs=8", "--early_stopping.patience=1"]
    assert machine.run(fit, "--run=whole").status == 0
    machine.run(fit, "--run=parts", faults=[KillAtHook("on_train_batch_start", 22)])
    assert machine.run(fit, "--run=parts").status == 0
    runs = machine.where / "runs"
    assert compare_runs(runs / "whole", runs / "parts") == []


def test_more_after_an_early_end_in_the_first_epoch(machine: Machine) -> None:
    fit = ["fit", *TINY, "--trainer.val_check_interval=2", "--trainer.max_epochs=2"]
    run = machine.where / "runs" / "a"
    assert machine.run(fit, "--run=a", "--early_stopping.patience=1").status == 0
    ended = step(run)
    assert ended < BATCHES
    assert machine.run("fit", "--run=a", "--early_stopping.patience=2").status == 0
    longer = step(run)
    assert longer > ended
    assert machine.run("fit", "--run=a", "--trainer.max_epochs=3").status == 0
    assert step(run) > longer


@pytest.mark.parametrize("limit", ["--trainer.max_steps=5", "--trainer.max_steps=18"])
def test_more_steps_after_an_end_inside_an_epoch(machine: Machine, limit: str) -> None:
    # Without a schedule, which is stretched to the new length.
    fit = ["fit", *TINY, "--model.optimisation.warmup=0", "--model.optimisation.decay=none"]
    assert machine.run(fit, "--trainer.max_steps=30", "--run=whole").status == 0
    assert machine.run(fit, limit, "--run=parts").status == 0
    outcome = machine.run(fit, "--trainer.max_steps=30", "--run=parts")
    assert outcome.status == 0, outcome.err
    runs = machine.where / "runs"
    assert compare_runs(runs / "whole", runs / "parts") == []
