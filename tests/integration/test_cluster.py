"""The batch script, with commands in the place of SLURM's that note how they were called."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Steadfast
from tests.integration.several import CLUSTER

JOB = {"SLURM_JOB_ID": "4242", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
ARGS = ["train", "--model", "OLSA", "--data", "Reviews", "--run", "a b"]


def batch(where: Path, status: int, *, first: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script; `srun` does something and ends with this status."""
    note = f'printf "%s\\n" "$@" > {where}/$(basename "$0").called'
    for name, end in (("srun", f"{first}\nexit {status}"), ("scontrol", "exit 0")):
        command = where / name
        command.write_text(f"#!/bin/sh\n{note}\n{end}\n")
        command.chmod(0o755)
    return subprocess.run(
        [str(CLUSTER / "slurm.sbatch"), *ARGS],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **JOB, "PATH": f"{where}:{os.environ['PATH']}", "PYTHON": "python3"},
    )


@pytest.mark.parametrize("status", [0, 1, 137, 143])
def test_only_what_was_stopped_is_queued_again(tmp_path: Path, status: int) -> None:
    outcome = batch(tmp_path, status)
    assert outcome.returncode == status, outcome.stderr
    again = tmp_path / "scontrol.called"
    assert again.exists() == (status == 143)
    if status == 143:
        assert again.read_text().split() == ["requeue", "4242"]


def test_a_cancelled_job_is_not(tmp_path: Path) -> None:
    outcome = batch(tmp_path, 143, first="kill -TERM $PPID")
    assert outcome.returncode == 143, outcome.stderr
    assert not (tmp_path / "scontrol.called").exists()


def test_the_tasks_get_the_command(tmp_path: Path, steadfast: Steadfast) -> None:
    batch(tmp_path, 0)
    called = (tmp_path / "srun.called").read_text().splitlines()
    assert called[:4] == ["--kill-on-bad-exit=1", "python3", "-m", "app"]
    assert called[4:11] == ARGS
    parsed = steadfast(*[*called[4:9], *called[11:], "--print_config"])
    assert parsed.status == 0
    assert "num_nodes: 2" in parsed.out
    assert "devices: '4'" in parsed.out


@pytest.mark.parametrize("missing", ["MASTER_ADDR", "NODE_RANK"])
def test_torchrun_says_what_it_needs(missing: str) -> None:
    given = {"MASTER_ADDR": "127.0.0.1", "NODE_RANK": "0", "PYTHON": sys.executable}
    del given[missing]
    environment = {key: value for key, value in os.environ.items() if key != missing}
    outcome = subprocess.run(
        [str(CLUSTER / "torchrun.sh"), *ARGS],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, **given},
    )
    assert outcome.returncode != 0
    assert f"{missing}: expected" in outcome.stderr
