"""Studies whose commands are forks (see `program`): as many new interpreters take minutes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.cli.main import entry
from app.study import runner
from tests.faults.child import Task
from tests.faults.program import Forked


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Lets the studies of this process fork their commands."""
    with pytest.MonkeyPatch.context() as patch:
        popen = SimpleNamespace(Popen=_forked, DEVNULL=None, STDOUT=None)
        patch.setattr(runner, "subprocess", popen)
        yield


def run_study(study: Path, runs: Path) -> None:
    """Runs what is left of a study."""
    with forking():
        assert entry(["study", "run", str(study), f"--runs_dir={runs}", "--jobs=2"]) == 0


def _forked(words: list[str], *, cwd: str, env: dict[str, str], stdout: Any, **_: Any) -> Forked:
    """A command with one file for all that it says, in place of `subprocess.Popen`."""
    log = Path(cwd, stdout.name).resolve()
    for end in (".out", ".err"):
        Path(f"{log}{end}").unlink(missing_ok=True)
        Path(f"{log}{end}").symlink_to(log)
    arguments = words[words.index("app") + 1 :]
    return Forked(Task(arguments, str(Path(cwd).resolve()), str(log), env))
