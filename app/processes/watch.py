"""Processes that watch each other: when one of a run is gone, the others end, and say why."""

import atexit
import contextlib
import functools
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytorch_lightning as pl
from pytorch_lightning.strategies.launchers import subprocess_script

from app.processes.distributed import LostRankError
from app.processes.last_error import (
    ERRORS_VARIABLE,
    LAUNCHER_VARIABLE,
    error_of,
    leave_error,
    reported,
)

GRACE = 10.0
"""Seconds that a process has to end by itself when another one is gone: to report its own error,
which may be the same. In a collective it would wait for the timeout of the process group."""
_EVERY = 0.5
_SETTLE = 10.0
_TALK = re.compile(r"gloo|nccl|\bdist(backend|network|store)?error", re.IGNORECASE)
"""Words in errors of communication between processes."""
_NETWORK = re.compile(
    "tcpstore|rendezvous|broken pipe|socket|connection (reset|closed|refused|aborted)",
    re.IGNORECASE,
)
"""The same in a `RuntimeError`, torch's; in an `OSError` they are about workers of the loader."""
_TAKEN = re.compile("address already in use|EADDRINUSE", re.IGNORECASE)
"""Words in the error of a port that another program has."""


class Watcher(threading.Thread):
    """Ends this process when another one on this machine, without which it cannot go on, is gone.

    A process that starts the others watches them; those it starts watch it, and so do those that
    torchrun starts. Other machines notice by broken connections, or by the timeout of the process
    group.

    Args:
        children: the processes that this one has started; asked for again and again.
        parent: the process that has started this one and has to live, if there is one.
        grace: seconds of patience, see `GRACE`.
        end: ends the process.
    """

    def __init__(
        self,
        children: Callable[[], Sequence[subprocess.Popen[bytes]]],
        parent: int | None,
        *,
        grace: float = GRACE,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        super().__init__(daemon=True, name="steadfast-ranks")
        self._children, self._parent = children, parent
        self._grace, self._end = grace, end
        self._stopped = threading.Event()

    def lost(self) -> str | None:
        """The process that has ended, if any."""
        if self._parent is not None and os.getppid() != self._parent:
            who = "the first process of the run" if self._parent == _launcher() else "torchrun"
            return f"{who} (process {self._parent}) is gone"
        for rank, child in enumerate(self._children(), start=1):
            status = child.poll()
            # One that has failed may take long to end, on a busy machine.
            error = error_of(child.pid) if status != 0 else ""
            if status or error:
                who = f"rank {rank} on this machine (process {child.pid})"
                end = "has failed" if status is None else _end_of(status)
                return f"{who} {end}{': ' if error else ''}{error}"
        return None

    def running(self) -> list[str]:
        """The processes that this one has started and that have not ended."""
        children = enumerate(self._children(), start=1)
        return [f"rank {rank} (process {one.pid})" for rank, one in children if one.poll() is None]

    def run(self) -> None:
        """Watch until `stop`, or until somebody is gone."""
        while not self._stopped.wait(_EVERY):
            lost = self.lost()
            # Without `stop`, whatever the main thread does now is to end. If it hangs, in a
            # collective or in closing down, that ends here.
            if lost is None or self._stopped.wait(self._grace):
                continue
            # The main thread may be about to print a better line, or be stuck before it.
            if not reported.is_set():
                sys.stderr.write(f"error: {explain(lost)}\n")
                sys.stderr.flush()
            for child in self._children():
                child.kill()
            for worker in multiprocessing.active_children():
                worker.kill()
            _forget_errors()
            self._end(1)
            return

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()


def _end_of(status: int) -> str:
    """Say how a process has ended; shells add 128 to the number of a signal."""
    names = {known.value: known.name for known in signal.Signals}
    if status < 0 or status - 128 in names:
        number = -status if status < 0 else status - 128
        return f"was ended by {names.get(number, f'signal {number}')}"
    return f"has ended with exit status {status}"


def explain(lost: str) -> str:
    """The line for the user."""
    return (
        f"{lost}; the run ends. What that process printed is above; if it printed nothing, look "
        "for lack of memory (docs/runbook.md). The same command, with --run, resumes from the last "
        "checkpoint"
    )


@contextlib.contextmanager
def watched(trainer: pl.Trainer) -> Iterator[None]:
    """Watch the other processes of a trainer inside the block.

    Raises:
        LostRankError: in the place of an error in talking to a process that is gone.
    """
    launcher = getattr(trainer.strategy, "launcher", None)
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or environment is None or not hasattr(launcher, "procs"):
        yield
        return
    if not environment.creates_processes_externally:
        os.environ[LAUNCHER_VARIABLE] = str(os.getpid())
        os.environ[ERRORS_VARIABLE] = _errors_folder()
    # Lightning's own watch kills this process without a word.
    setattr(subprocess_script, "_launch_process_observer", _observe_nothing)  # noqa: B010 # it is private
    reported.clear()
    watcher = Watcher(lambda: getattr(launcher, "procs", []), _parent())
    watcher.start()
    try:
        yield
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        of_torch = isinstance(error, RuntimeError) and _NETWORK.search(text)
        if not of_torch and _TALK.search(text) is None:
            # Here, and not only when it is printed: the others have lost the connection by now.
            leave_error(text)
            watcher.stop()
            raise
        # The watcher stays, in case that closing down hangs.
        lost = None if _TAKEN.search(text) else _settled(watcher)
        raise LostRankError(explain(lost) if lost else _unknown(text, watcher)) from error
    except BaseException:
        watcher.stop()
        raise
    watcher.stop()


@functools.cache
def _errors_folder() -> str:
    atexit.register(_forget_errors)
    return tempfile.mkdtemp(prefix="steadfast-ranks-")


def _forget_errors() -> None:
    if _launcher() is None and (folder := os.environ.pop(ERRORS_VARIABLE, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _observe_nothing(children: object) -> None:
    """Take the place of what starts Lightning's own watch."""


def _unknown(text: str, watcher: Watcher) -> str:
    """The line for the user where nobody on this machine is gone."""
    said = text.splitlines()[0].split(". This is")[0]  # what follows is advice for programmers
    if _TAKEN.search(said):
        return f"the processes could not meet ({said}): set MASTER_PORT to a port that is free"
    happened = "lost the connection to another process"
    if re.search("time(d )?.?out", said, re.IGNORECASE):
        happened = "got no answer from another process within the timeout of the process group"
    launcher = _launcher()
    if launcher is not None and os.getppid() == launcher:
        # It has neither failed nor ended this process: it hangs itself, and would for ever.
        os.kill(launcher, signal.SIGKILL)
        happened += f"; the first one ({launcher}) hung, and was ended"
    if running := watcher.running():
        happened += f"; still running: {', '.join(running)}"
    return f"{happened} ({said}); see docs/runbook.md, hung ranks"


def _launcher() -> int | None:
    """The process of the run that has started this one, if one has."""
    launcher = int(os.environ.get(LAUNCHER_VARIABLE, os.getpid()))
    return None if launcher == os.getpid() else launcher


def _parent() -> int | None:
    """The process whose end is the end of this one."""
    return _launcher() or (os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None)


def _settled(watcher: Watcher) -> str | None:
    """The process that has ended, if any.

    Connections break before their process has ended, by seconds on a busy machine. And a process
    that was started by another gives that one the time to speak for all.
    """
    until = time.monotonic() + (_SETTLE if _launcher() is None else 2 * _SETTLE)
    while (lost := watcher.lost()) is None and time.monotonic() < until:
        time.sleep(0.05)
    return lost
