"""Several command lines in the same processes, and several processes for one command line.

Starting two processes takes seconds on a slow machine, what they do then takes milliseconds: tests
give a list of commands to one pair. Run as `python -m tests.integration.several FILE`, with the
commands as JSON; `--trainer.devices=2` starts the second process, as it does for `-m app`.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "configs" / "cluster"
QUIET = [
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
TWO = ["--trainer.devices=2", "--trainer.strategy=ddp"]


def main(path: str) -> int:
    """Run the commands until one fails."""
    from app.cli.main import entry

    for command in json.loads(Path(path).read_text()):
        status = entry(command)
        os.environ.pop("PL_GLOBAL_SEED", None)
        if status:
            return status
    return 0


def run(commands: Sequence[Sequence[str]], *, where: Path) -> tuple[str, str]:
    """Run commands in the same processes; returns standard output and standard error."""
    listing = where / "commands.json"
    listing.write_text(json.dumps([list(command) for command in commands]))
    program = python("-m", "tests.integration.several", str(listing), where=where)
    out, err = program.communicate(timeout=900)
    assert program.returncode == 0, err
    return out, err


def python(*args: str, where: Path, **settings: str) -> subprocess.Popen[str]:
    """A Python process in a folder, begun."""
    return begin(sys.executable, *args, where=where, **settings)


def begin(*args: str, where: Path, **settings: str) -> subprocess.Popen[str]:
    """A process in a folder, begun."""
    return subprocess.Popen(
        args,
        cwd=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Asking git would start one more process; and a commit meanwhile would change the answer.
        env={**os.environ, "PYTHONPATH": str(ROOT), "STEADFAST_REVISION": "tests", **settings},
    )


def until(condition: Callable[[], object], *programs: subprocess.Popen[str]) -> None:
    """Wait for a condition that the programs bring about while they run."""
    end = time.monotonic() + 300
    while not condition():
        for program in programs:
            assert program.poll() is None, program.communicate()
        assert time.monotonic() < end, "waited for five minutes"
        time.sleep(0.02)


def children(program: subprocess.Popen[str]) -> list[int]:
    """The processes that a program has started from its main thread."""
    listed = Path(f"/proc/{program.pid}/task/{program.pid}/children")
    return [int(pid) for pid in listed.read_text().split()]


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def weights(run: Path) -> dict[str, Any]:
    """The weights in the last checkpoint of a run."""
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    state: dict[str, Any] = checkpoint["state_dict"]
    return state


def same_bits(one: Path, other: Path) -> None:
    """Check that two runs ended with the same weights."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
