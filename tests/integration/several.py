"""Several command lines in the same processes, and several processes for one command line.

Starting a process takes seconds, what it does then takes milliseconds: tests give a list of
commands to one pair. The first is a fork (see tests/faults/program.py) that runs `entry` on a file
with the commands as JSON; `--trainer.devices=2` starts the second one as
`python -m tests.integration.several FILE`, as it does for `-m app`.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.faults.child import Task
from tests.faults.program import HANGS, Forked, Outcome, Piped, free_port, rank_variables, variables

ROOT = Path(__file__).parents[2]
MODULE = "tests.integration.several"
# Asking git would start one more process; and a commit meanwhile would change the answer.
REVISION = {"STEADFAST_REVISION": "tests"}
CLUSTER = ROOT / "configs" / "cluster"
QUIET = [
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
TWO = ["--trainer.devices=2", "--trainer.strategy=ddp"]


def entry() -> int:
    """Run the commands until one fails; without the page after `train`, as in conftest.py."""
    from app.cli import robust_cli
    from app.cli.main import entry as run_one

    robust_cli._report = lambda run: None
    for command in json.loads(Path(sys.argv[1]).read_text()):
        status = run_one(command)
        os.environ.pop("PL_GLOBAL_SEED", None)
        if status:
            return status
    return 0


def listed(commands: Sequence[Sequence[str]], *, where: Path) -> str:
    """Write commands into a file for `entry`; returns its path."""
    path = where / "commands.json"
    path.write_text(json.dumps([list(command) for command in commands]))
    return str(path)


def run(commands: Sequence[Sequence[str]], *, where: Path) -> tuple[str, str]:
    """Run commands in the same processes; returns standard output and standard error."""
    program = Piped(listed(commands, where=where), where=where, module=MODULE, **REVISION)
    out, err = program.communicate()
    assert program.returncode == 0, err
    return out, err


def run_two(*command: str, where: Path, module: str = "app.__main__") -> Outcome:
    """Run one command in two processes as torchrun starts them, but both of them forks.

    A new interpreter for the second takes seconds; test_distributed.py and
    test_distributed_faults.py start it so. Returns the outputs of both together.
    """
    port = free_port()
    with tempfile.TemporaryDirectory() as logs:
        tasks = [
            Task(
                list(command),
                str(where),
                f"{logs}/{rank}",
                variables(**rank_variables(rank, 2, port), **REVISION),
                module=module,
            )
            for rank in range(2)
        ]
        processes = [Forked(task) for task in tasks]
        statuses = [process.wait(HANGS) for process in processes]
        for process in processes:
            process.kill()
        out, err = (
            "".join(Path(task.log + end).read_text() for task in tasks) for end in (".out", ".err")
        )
    assert statuses == [0, 0], err
    return Outcome(0, out, err)


def until(condition: Callable[[], object], *programs: Piped) -> None:
    """Wait for a condition that the programs bring about while they run."""
    end = time.monotonic() + 300
    while not condition():
        for program in programs:
            assert program.poll() is None, program.communicate()
        assert time.monotonic() < end, "waited for five minutes"
        time.sleep(0.02)


def children(program: Piped) -> list[int]:
    """The processes that a program has started from its main thread."""
    listed = Path(f"/proc/{program.pid}/task/{program.pid}/children")
    return [int(pid) for pid in listed.read_text().split()]


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
    sys.exit(entry())
