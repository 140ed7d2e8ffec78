"""Processes of a run that are killed, stopped or cut off: the others end, and the run goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lit_modules import read_checkpoint
from tests.faults.program import Piped, free_port, variables
from tests.integration.conftest import OLSA, lines
from tests.integration.faulty_rank import FAULTS
from tests.integration.several import (
    CLUSTER,
    MODULE,
    QUIET,
    REVISION,
    TWO,
    children,
    listed,
    run,
    run_two,
    same_bits,
    until,
)

pytestmark = pytest.mark.distributed

STEPS = 60
FIT = [
    "fit",
    *OLSA,
    "--model.layers.dropout=0.5",
    "--data=Reviews",
    "--data.batch_size=4",
    *QUIET,
    "--trainer.limit_val_batches=1",
    f"--trainer.max_steps={STEPS}",
]
OFTEN = ["--checkpoint_every_n_minutes=0"]  # after each step, so that a kill finds something
CERTIFY = ["certify", *QUIET, "--run=whole"]


def last(where: Path, name: str) -> Path:
    return where / "runs" / name / "checkpoints" / "last.ckpt"


def begun(where: Path, name: str, *more: str) -> Piped:
    """A fit by two processes that has saved its first steps."""
    program = Piped(*FIT, *OFTEN, *TWO, *more, f"--run={name}", where=where, **REVISION)
    until(last(where, name).exists, program)
    return program


def interrupted(where: Path, name: str) -> None:
    """Check that there is something to go on from."""
    step = read_checkpoint(last(where, name))["global_step"]
    assert 0 < step < STEPS
    assert not (where / "runs" / name / "results.json").exists()


def kill_second(where: Path) -> None:
    program = begun(where, "second-killed")
    (second,) = children(program)
    os.kill(second, signal.SIGKILL)
    _, err = program.communicate()
    assert program.returncode == 1, err
    assert f"error: rank 1 on this machine (process {second}) was ended by SIGKILL" in err
    interrupted(where, "second-killed")


def kill_first(where: Path) -> None:
    program = begun(where, "first-killed")
    program.kill()
    # Comes back when nobody holds the other end of the pipes: the second process has ended.
    _, err = program.communicate()
    assert program.returncode == -signal.SIGKILL
    assert f"error: the first process of the run (process {program.pid}) is gone" in err
    interrupted(where, "first-killed")


def stop_slurm(where: Path) -> None:
    """What `srun` does on one machine with two tasks, as far as programs can tell."""
    job = {
        "SLURM_JOB_ID": "4242",
        "SLURM_JOB_NAME": "train",
        "SLURM_NODELIST": "127.0.0.1",
        "SLURM_NNODES": "1",
        "SLURM_NODEID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    tasks = [
        Piped(
            *(*FIT, *OFTEN, *TWO, "--run=slurm"),
            where=where,
            **REVISION,
            **job,
            SLURM_PROCID=str(task),
            SLURM_LOCALID=str(task),
        )
        for task in range(2)
    ]
    until(last(where, "slurm").exists, *tasks)
    for task in tasks:
        task.terminate()
    outcomes = [task.communicate() for task in tasks]
    # `srun` returns the largest: the batch script sees 143.
    assert [task.returncode for task in tasks] == [143, 0], outcomes
    assert "stopped by SIGTERM: saved " in outcomes[0][1]
    assert not list((where / "runs" / "slurm").glob("hpc_ckpt*"))  # Lightning's, with its handler
    interrupted(where, "slurm")


STOPS = {"second-killed": kill_second, "first-killed": kill_first, "slurm": stop_slurm}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with runs that were stopped and went on, and the run `whole` that was not."""
    where = tmp_path_factory.mktemp("faults")
    for stop in STOPS.values():
        stop(where)
    commands = [[*FIT, *TWO, f"--run={name}"] for name in (*STOPS, "whole")]
    run_two(listed(commands, where=where), where=where, module=MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        yield where


@pytest.mark.parametrize("name", STOPS)
def test_a_stopped_run_ends_like_one_that_was_not(resumed: Path, name: str) -> None:
    same_bits(resumed / "runs" / name, resumed / "runs" / "whole")


@pytest.mark.slow
def test_two_machines_do_what_two_processes_do(resumed: Path) -> None:
    """Two launchers on loopback, which share no disk, make the same run."""
    machines = [resumed, resumed / "elsewhere"]
    machines[1].mkdir()
    programs = torchrun(machines, *FIT, "--run=machines")
    for program in programs:
        _, err = program.communicate()
        assert program.returncode == 0, err
    same_bits(resumed / "runs" / "machines", resumed / "runs" / "whole")
    assert not list(machines[1].rglob("*.*"))  # the first process alone writes


@pytest.mark.slow
def test_machines_that_begin_differently_are_refused(resumed: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    longer = [word for word in FIT if "max_steps" not in word] + [
        f"--trainer.max_steps={2 * STEPS}"
    ]
    programs = torchrun([resumed, elsewhere], *longer, "--run=slurm")
    for program in programs:
        _, err = program.communicate()
        assert program.returncode != 0
        assert "rank 1 with (none), expected the same: let all machines see one --runs_dir" in err


def torchrun(machines: list[Path], *args: str) -> list[subprocess.Popen[str]]:
    """What is given on each machine, for which folders stand; one process each."""
    settings = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "NODES": str(len(machines)),
        "PROCESSES": "1",
        "PYTHON": sys.executable,
    }
    return [
        subprocess.Popen(
            [str(CLUSTER / "torchrun.sh"), *args],
            cwd=machine,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables(NODE_RANK=str(rank), **REVISION, **settings),
        )
        for rank, machine in enumerate(machines)
    ]


@pytest.mark.slow
def test_an_evaluation_goes_on_where_it_was_killed(resumed: Path) -> None:
    parts = resumed / "runs" / "whole" / "certificates.parts"

    def written() -> int:
        return sum(part.read_bytes().count(b'"sample_id"') for part in parts.glob("rank-*"))

    slowly = "--data.eval_batch_size=1"
    program = Piped(*CERTIFY, *TWO, slowly, where=resumed, **REVISION)
    until(lambda: written() > 20, program)
    (second,) = children(program)
    os.kill(second, signal.SIGKILL)
    _, err = program.communicate()
    assert program.returncode == 1, err
    assert "was ended by SIGKILL" in err
    done = written()
    assert 20 < done < 1000
    # By one process, which has the files of two before it.
    afresh = ["certify", *QUIET, f"--ckpt_path={last(resumed, 'whole')}", "--run=afresh"]
    _, err = run([[*CERTIFY, slowly], afresh], where=resumed)
    assert f"{done} samples were done before" in err
    assert not parts.exists()
    found, expected = (lines(f"runs/{name}/certificates.jsonl") for name in ("whole", "afresh"))
    assert [record["sample_id"] for record in found] == list(range(1000))
    for one, other in zip(found, expected, strict=True):
        assert one["prediction"] == other["prediction"]
        assert one["radius"] == pytest.approx(other["radius"], abs=1e-6)


@pytest.mark.parametrize(
    ("fault", "at"),
    [
        ("raises", "step"),
        *(pytest.param(name, "import", marks=pytest.mark.slow) for name in ("exits", "raises")),
        *(
            pytest.param(name, "step", marks=pytest.mark.slow)
            for name in FAULTS
            if name != "raises"
        ),
    ],
)
def test_the_first_process_names_how_another_has_failed(
    tmp_path: Path, fault: str, at: str
) -> None:
    planted = {"STEADFAST_IMPORT": "tests.integration.faulty_rank", "FAULT": fault, "FAULT_AT": at}
    program = Piped(*FIT, *TWO, "--run=a", where=tmp_path, **REVISION, **planted)
    _, err = program.communicate()
    assert program.returncode == 1, err
    (line,) = [
        line for line in err.splitlines() if line.startswith("error: rank 1 on this machine")
    ]
    assert FAULTS[fault][1] in line
    assert ("a bad row" in line) == (fault == "raises")


@pytest.mark.slow
def test_a_process_that_is_killed_before_they_have_met(tmp_path: Path) -> None:
    """The first waits for it where nothing can wake it, as a collective of NCCL waits."""
    program = Piped(*FIT, *TWO, "--run=a", where=tmp_path, **REVISION)
    until(lambda: children(program), program)
    os.kill(children(program)[0], signal.SIGKILL)
    _, err = program.communicate()
    assert program.returncode == 1, err
    assert "was ended by SIGKILL; the run ends" in err


TIMEOUT = ["--trainer.strategy=DDPStrategy", "--trainer.strategy.timeout=0:00:05"]


@pytest.mark.slow
def test_a_second_process_that_hangs(tmp_path: Path) -> None:
    program = begun(tmp_path, "a", *TIMEOUT)
    (second,) = children(program)
    os.kill(second, signal.SIGSTOP)
    _, err = program.communicate()
    assert program.returncode == 1
    assert "got no answer from another process within the timeout of the process group" in err
    interrupted(tmp_path, "a")


@pytest.mark.slow
def test_a_first_process_that_hangs(tmp_path: Path) -> None:
    program = begun(tmp_path, "a", *TIMEOUT)
    program.send_signal(signal.SIGSTOP)
    _, err = program.communicate()
    assert program.returncode == -signal.SIGKILL
    assert f"the first one ({program.pid}) hung, and was ended" in err
    interrupted(tmp_path, "a")
