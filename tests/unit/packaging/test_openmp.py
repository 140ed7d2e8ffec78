"""How OpenMP waits is settled before torch loads it, in every program of ours."""

import os
import subprocess
import sys

import pytest

from tests.unit.packaging.metadata import ROOT

NAMES = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}
AT_TORCH = f"""
import os, runpy, sys

class Torch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print({{name: os.environ[name] for name in {NAMES} & os.environ.keys()}}, flush=True)
            os._exit(0)

sys.meta_path.insert(0, Torch())
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module up to where it loads torch, and prints what OpenMP would read."""
PROGRAMS = {
    "app": ["app", "fit"],
    "steadfast": ["steadfast", "study", "run", "x.yaml"],
    "serve": ["app", "serve", "--run", "a"],
    "a benchmark": ["benchmarks.attention"],
    "forked by tests": ["tests.faults.preload"],
}


def read_at_torch(*words: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", AT_TORCH, *words],
        env=clean | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_threads_sleep_while_they_wait(program: str) -> None:
    assert read_at_torch(*PROGRAMS[program]) == "{'OMP_WAIT_POLICY': 'PASSIVE'}"


@pytest.mark.long
@pytest.mark.parametrize(
    "chosen",
    [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "1000"}, {"KMP_BLOCKTIME": "200"}],
    ids=lambda chosen: str(*chosen),
)
def test_whoever_has_chosen_keeps_it(chosen: dict[str, str]) -> None:
    assert read_at_torch(*PROGRAMS["app"], **chosen) == str(chosen)


def test_the_tests_themselves_do_not_spin() -> None:
    assert NAMES & os.environ.keys()
