"""Kills a study at random moments, and compares its end with that of an undisturbed one.

`python -m tests.faults.study_kills configs/studies/example.yaml --kills 10` runs the study in
`runs/calm`, then in `runs/stormy` with ten kills, and says whether their `study.json` are the same
but for the seconds.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.child import Task
from tests.faults.program import HANGS, Forked, variables


def begin(study: Path, runs: Path) -> Forked:
    """Starts `study run`; its output is added to `log.out` and `log.err` there."""
    runs.mkdir(parents=True, exist_ok=True)
    words = ["study", "run", str(study.resolve()), f"--runs_dir={runs.resolve()}", "--jobs=2"]
    # An edit of the checkout in the meantime is no difference.
    environment = variables(STEADFAST_REVISION="tested")
    return Forked(Task(words, str(Path.cwd()), str(runs / "log"), environment))


def finish(study: Path, runs: Path) -> None:
    """Runs what is left of a study."""
    assert begin(study, runs).wait() == 0, (runs / "log.err").read_text()


def storm(study: Path, runs: Path, waits: Iterable[Callable[[Forked], object]]) -> int:
    """Kills the program after each wait, and starts it again.

    Args:
        study: its file.
        runs: directory of its runs.
        waits: each comes back at the moment of a kill, or when the program has ended.

    Returns:
        The number of kills: fewer where the study has ended before.
    """
    kills = 0
    for wait in waits:
        runner = begin(study, runs)
        wait(runner)
        working = _children(runner.pid)
        if runner.wait(0) is not None:  # it was faster than that
            break
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        kills += 1
        # No process is left that trains the run of the next start.
        until = time.monotonic() + HANGS
        while any(_alive(child) for child in working):
            assert time.monotonic() < until, "a child has outlived the study"
            time.sleep(0.01)
    return kills


def figures(study: Path, runs: Path) -> dict[str, Any]:
    """The figures of a study, without the seconds."""
    path = runs / "studies" / study.stem / "study.json"
    content: dict[str, Any] = json.loads(path.read_text())
    assert content.pop("seconds")
    return content


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def main() -> int:
    """Runs the command; 1 if there is a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("study", type=Path)
    add("--runs_dir", type=Path, default=Path("runs"), help="calm/ and stormy/ are made in it")
    add("--kills", type=int, default=10)
    add("--least", type=float, default=5.0, help="seconds before a kill, at least (default: 5)")
    add("--most", type=float, default=40.0, help="seconds before a kill, at most (default: 40)")
    add("--seed", type=int, default=0, help="of the moments")
    args = parser.parse_args()
    calm, stormy = args.runs_dir / "calm", args.runs_dir / "stormy"
    dice = random.Random(args.seed)
    finish(args.study, calm)
    seconds = [dice.uniform(args.least, args.most) for _ in range(args.kills)]
    waits = [partial(Forked.wait, timeout=one) for one in seconds]
    kills = storm(args.study, stormy, waits)
    finish(args.study, stormy)
    same = figures(args.study, calm) == figures(args.study, stormy)
    print(f"{kills} kills: study.json is {'the same' if same else 'another'}, but for seconds")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
