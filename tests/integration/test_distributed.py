"""Two processes on the CPU, as `--trainer.devices=2` starts them."""

import signal
import time
from pathlib import Path

import pytest
import torch

from tests.integration.conftest import (
    ATTACK,
    OLSA,
    QUIET,
    Steadfast,
    lines,
    process,
    results,
)

FIT = ["--model.dropout=0", "--data=Reviews", "--data.limit_train=64", "--trainer.max_epochs=2"]
TWO = ["--trainer.devices=2", "--trainer.strategy=ddp"]


def test_two_processes_do_what_one_does(here: Path, steadfast: Steadfast) -> None:
    shared = [*OLSA, *FIT, *QUIET, *ATTACK]
    program = process("train", *shared, *TWO, "--data.batch_size=8", "--data.eval_batch_size=48")
    out, err = program.communicate()
    assert program.returncode == 0, err
    assert out.count("accuracy under l2-PGD") == 1
    (name,) = (path.name for path in Path("runs").iterdir())  # both agreed on one
    assert steadfast("train", shared, "--data.batch_size=16", "--run=one").status == 0
    two, one = results(name)["metrics"], results("one")["metrics"]
    assert two.keys() == one.keys()
    for metric, value in one.items():
        assert two[metric] == pytest.approx(value, abs=1e-3), metric
    certificates = lines(f"runs/{name}/certificates.jsonl")
    assert [record["sample_id"] for record in certificates] == list(range(1000))
    program = process("predict", f"--run={name}", *QUIET, *TWO)
    _, err = program.communicate()
    assert program.returncode == 0, err
    predictions = lines(f"runs/{name}/predictions.jsonl")
    assert [record["sample_id"] for record in predictions] == list(range(1000))


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_first_process_stops_both(
    here: Path, signum: signal.Signals, status: int
) -> None:
    program = process(
        "fit",
        *OLSA,
        *QUIET,
        *TWO,
        "--data=Reviews",
        "--data.batch_size=2",
        "--trainer.max_epochs=1000",
        "--checkpoint.every_minutes=0.001",
        "--run=a",
    )
    last = Path("runs/a/checkpoints/last.ckpt")
    while not last.exists():
        assert program.poll() is None, program.communicate()
        time.sleep(0.05)
    program.send_signal(signum)
    _, err = program.communicate()
    assert program.returncode == status, err
    assert err.count("saved ") == 1
    assert torch.load(last, weights_only=True)["global_step"] > 0


@pytest.mark.slow
def test_an_error_is_said_and_leaves_no_process(here: Path) -> None:
    program = process(
        "fit", *OLSA, *QUIET, *TWO, "--data=SST2", "--data.data_dir=nowhere", "--run=a"
    )
    _, err = program.communicate()  # ends only when no process holds the other end any more
    assert program.returncode != 0
    assert "error: " in err
    assert "nowhere" in err
