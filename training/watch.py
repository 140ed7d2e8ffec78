"""Watches the processes of a run: if one ends early, the others end with its error."""

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

from run_files.distributed import LostRankError
from training.last_error import (
    ERRORS_VARIABLE,
    LAUNCHER_VARIABLE,
    leave_error,
    printing,
    read_error,
    reported,
)

GRACE = 10.0
"""Seconds that a process has to report its own error when another one is gone. A process that hangs
in a collective operation has none to report."""
_INTERVAL = 0.5
_SETTLE = 10.0
_COMMUNICATION = re.compile(r"gloo|nccl|\bdist(backend|network|store)?error", re.IGNORECASE)
"""Words in errors of communication between processes."""
# Only for RuntimeErrors, which torch raises: such an OSError is about workers of the loader.
_NETWORK = re.compile(
    "tcpstore|rendezvous|broken pipe|socket|connection (reset|closed|refused|aborted)",
    re.IGNORECASE,
)
_PORT_IN_USE = re.compile("address already in use|EADDRINUSE", re.IGNORECASE)


class Watcher(threading.Thread):
    """Ends this process when another one of the run on this machine is gone.

    The first process watches the others; they watch it, or torchrun. Other machines notice a broken
    connection, or the timeout of the process group.

    Args:
        children: returns the processes that this one has started.
        parent: id of the process that has started this one, if any.
        grace: see `GRACE`.
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
        """Return a description of a process that has ended or failed, if any."""
        if self._parent is not None and os.getppid() != self._parent:
            name = "the first process of the run" if self._parent == _launcher() else "torchrun"
            return f"{name} (process {self._parent}) is gone"
        for rank, child in enumerate(self._children(), start=1):
            status = child.poll()
            # A process that has left an error may still need long to end, on a busy machine.
            error = read_error(child.pid) if status != 0 else ""
            if status or error:
                end = "has failed" if status is None else _describe_end(status)
                end += f": {error}" if error else ""
                return f"rank {rank} on this machine (process {child.pid}) {end}"
        return None

    def running(self) -> list[str]:
        """Return the names of the started processes that still run."""
        return [
            f"rank {rank} (process {child.pid})"
            for rank, child in enumerate(self._children(), start=1)
            if child.poll() is None
        ]

    def run(self) -> None:
        """Watch until `stop`, or until a process is gone."""
        while not self._stopped.wait(_INTERVAL):
            lost = self.lost()
            # If `stop` comes in time, the main thread ends this process. If not, that thread hangs.
            if lost is None or self._stopped.wait(self._grace):
                continue
            # Held to the end of the process, so that the main thread prints no second error.
            with printing:
                self._end_process(lost)
            return

    def _end_process(self, lost: str) -> None:
        # The main thread may have printed a better message already.
        if not reported.is_set():
            sys.stderr.write(f"error: {explain(lost)}\n")
            sys.stderr.flush()
        for child in self._children():
            child.kill()
        for worker in multiprocessing.active_children():
            worker.kill()
        _forget_errors()
        self._end(1)

    def stop(self) -> None:
        """End the watch."""
        self._stopped.set()


def _describe_end(status: int) -> str:
    names = {member.value: member.name for member in signal.Signals}
    # For a signal, Popen returns -number, and a shell 128 + number.
    number = -status if status < 0 else status - 128
    if status < 0 or number in names:
        return f"was ended by {names.get(number, f'signal {number}')}"
    return f"has ended with exit status {status}"


def explain(lost: str) -> str:
    """Return the error line about a process that is gone."""
    return (
        f"{lost}; the run ends. What that process printed is above; if it printed nothing, look "
        "for lack of memory (docs/runbook.md). The same command, with --run, resumes from the last "
        "checkpoint"
    )


@contextlib.contextmanager
def watched(trainer: pl.Trainer) -> Iterator[None]:
    """Watch the other processes of a trainer inside the block.

    Raises:
        LostRankError: instead of an error of communication with another process.
    """
    launcher = getattr(trainer.strategy, "launcher", None)
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or environment is None or not hasattr(launcher, "procs"):
        yield
        return
    if not environment.creates_processes_externally:
        os.environ[LAUNCHER_VARIABLE] = str(os.getpid())
        os.environ[ERRORS_VARIABLE] = _errors_folder()
    # Lightning has its own watch, which would kill this process without a message.
    setattr(subprocess_script, "_launch_process_observer", lambda _: None)  # noqa: B010 # mypy forbids x._y = z of a module
    reported.clear()
    watcher = Watcher(lambda: getattr(launcher, "procs", []), _parent())
    watcher.start()
    try:
        yield
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        of_torch = isinstance(error, RuntimeError) and _NETWORK.search(text)
        if not of_torch and _COMMUNICATION.search(text) is None:
            # Before it is printed: the other processes lose the connection now, and read this file.
            leave_error(text)
            watcher.stop()
            raise
        # The watcher is not stopped: closing down may hang.
        lost = None if _PORT_IN_USE.search(text) else _wait_for_lost(watcher)
        raise LostRankError(explain(lost) if lost else _explain_error(text, watcher)) from error
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


def _explain_error(text: str, watcher: Watcher) -> str:
    """Return the error line if no process on this machine is gone."""
    first_line = text.splitlines()[0].split(". This is")[0]  # then follows advice for programmers
    if _PORT_IN_USE.search(first_line):
        return f"the processes could not meet ({first_line}): set MASTER_PORT to a free port"
    event = "lost the connection to another process"
    if re.search("time(d )?.?out", first_line, re.IGNORECASE):
        event = "got no answer from another process within the timeout of the process group"
    launcher = _launcher()
    if launcher is not None and os.getppid() == launcher:
        # The first process has not failed: it hangs in a collective operation.
        os.kill(launcher, signal.SIGKILL)
        event += f"; the first one ({launcher}) hung, and was ended"
    if running := watcher.running():
        event += f"; still running: {', '.join(running)}"
    return f"{event} ({first_line}); see docs/runbook.md, hung ranks"


def _launcher() -> int | None:
    """Return the process of the run that has started this one, if any."""
    launcher = int(os.environ.get(LAUNCHER_VARIABLE, os.getpid()))
    return None if launcher == os.getpid() else launcher


def _parent() -> int | None:
    """Return the process without which this one has to end."""
    # torchrun sets this variable in the processes that it starts.
    return _launcher() or (os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None)


def _wait_for_lost(watcher: Watcher) -> str | None:
    # A connection breaks up to seconds before its process ends. A child waits twice as long, so
    # that its parent prints the common error first.
    deadline = time.monotonic() + (_SETTLE if _launcher() is None else 2 * _SETTLE)
    while (lost := watcher.lost()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return lost
