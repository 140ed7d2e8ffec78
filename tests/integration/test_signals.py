import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import lit_modules
from tests.faults.program import Piped
from tests.integration.conftest import ATTACK, OLSA, QUIET, Steadfast, results

# Long epochs of short steps, so that a signal meets the middle of one; and nothing that depends on
# the length of the run.
LONG = [
    *OLSA,
    "--model.optimisation.warmup=0",
    "--model.optimisation.decay=none",
    "--model.objective.schedule.shape=constant",
    "--model.layers.dropout=0.5",
    "--data=Reviews",
    "--data.batch_size=4",
    *QUIET,
    "--trainer.limit_val_batches=1",
]


def wait_for(path: Path, program: Piped) -> None:
    while not path.exists():
        assert program.poll() is None, program.communicate()
        time.sleep(0.05)


@pytest.fixture
def fitting(here: Path) -> Iterator[Piped]:
    """A fit that has been through some steps."""
    program = Piped(
        "fit", *LONG, "--trainer.max_epochs=1000", "--checkpoint_every_n_minutes=0.001", "--run=a"
    )
    try:
        wait_for(here / "runs/a/checkpoints/last.ckpt", program)
        yield program
    finally:
        program.kill()
        program.communicate()


@pytest.mark.parametrize(
    ("signum", "status", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_a_signal_saves_and_stops(
    fitting: Piped, steadfast: Steadfast, signum: signal.Signals, status: int, name: str
) -> None:
    fitting.send_signal(signum)
    _, err = fitting.communicate()
    assert fitting.returncode == status, err
    assert f"stopped by {name}: saved" in err
    assert "--run a resumes from there" in err
    assert "Traceback" not in err
    assert not Path("runs/a/results.json").exists()
    last = Path("runs/a/checkpoints/last.ckpt")
    assert lit_modules.load(last).class_names == ["negative", "positive"]
    before = torch.load(last, weights_only=True)
    step = before["global_step"]
    assert step > 0
    # It goes on from there, in the middle of the epoch.
    limit = f"--trainer.max_steps={step + 3}"
    outcome = steadfast("fit", "--run=a", limit)
    assert outcome.status == 0, outcome.err
    after = torch.load(last, weights_only=True)
    assert after["global_step"] == step + 3
    (spent,) = (s["seconds"] for s in before["callbacks"].values() if "seconds" in s)
    assert results("a")["seconds"]["fit"] >= round(spent, 3)
    # With the weights that a run without interruption has.
    assert steadfast("fit", LONG, "--trainer.max_epochs=1000", limit, "--run=whole").status == 0
    whole = torch.load("runs/whole/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    for key, tensor in whole.items():
        assert torch.equal(tensor, after["state_dict"][key]), key


def test_a_signal_before_training_stops_at_once(here: Path) -> None:
    program = Piped("fit", *LONG, "--trainer.max_epochs=1000", "--run=a", "--debug")
    assert program.stderr is not None
    first = program.stderr.readline()  # the libraries are loaded, and settings read
    assert "Seed set to 0" in first
    program.send_signal(signal.SIGTERM)
    _, err = program.communicate()
    assert program.returncode == 143, err
    assert "Traceback" not in err


def test_a_signal_during_a_test_stops_at_once(trained: Path, steadfast: Steadfast) -> None:
    before = results("done")
    program = Piped("test", "--run=done", *QUIET, "--pgd.steps=100000", "--debug")
    assert program.stderr is not None
    for line in program.stderr:
        if "Loaded model weights" in line:
            break
    time.sleep(1)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate()
    assert program.returncode == 130, err
    assert "no checkpoint was written for it" in err
    assert results("done") == before
    assert steadfast("test", "--run=done", ATTACK, QUIET).status == 0
    assert "test/bag_accuracy" in results("done")["metrics"]
