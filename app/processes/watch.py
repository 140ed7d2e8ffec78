"""Processes that watch each other: when one of a run is gone, the others end, and say why."""

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytorch_lightning as pl

from app.processes.distributed import LostRankError

LAUNCHER_VARIABLE = "STEADFAST_LAUNCHER"
"""Environment variable by which a process tells those it starts who it is."""
GRACE = 10.0
"""Seconds that a process has to end by itself when another one is gone: to report its own error,
which may be the same. In a collective it would wait for the timeout of the process group."""
_EVERY = 0.5
_SETTLE = 3.0
_TALK = re.compile(r"gloo|nccl|\bdist(backend|network|store)?error", re.IGNORECASE)
"""Words in errors of communication between processes."""


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
        self.said = False

    def lost(self) -> str | None:
        """The process that has ended, if any."""
        if self._parent is not None and os.getppid() != self._parent:
            who = "the first process of the run" if self._parent == _launcher() else "torchrun"
            return f"{who} (process {self._parent}) is gone"
        for rank, child in enumerate(self._children(), start=1):
            status = child.poll()
            if status is not None and status < 0:
                names = {known.value: known.name for known in signal.Signals}
                name = names.get(-status, f"signal {-status}")
                return f"rank {rank} on this machine (process {child.pid}) was ended by {name}"
            if status:
                return (
                    f"rank {rank} on this machine (process {child.pid}) has ended with exit "
                    f"status {status}"
                )
        return None

    def run(self) -> None:
        """Watch until `stop`, or until somebody is gone."""
        while not self._stopped.wait(_EVERY):
            _retire_observers()
            lost = self.lost()
            # Without `stop`, whatever the main thread does now is to end. If it hangs, in a
            # collective or in closing down, that ends here.
            if lost is None or self._stopped.wait(self._grace):
                continue
            if not self.said:
                sys.stderr.write(f"error: {explain(lost)}\n")
                sys.stderr.flush()
            for child in self._children():
                child.kill()
            for worker in multiprocessing.active_children():
                worker.kill()
            self._end(1)
            return

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()


def explain(lost: str) -> str:
    """The line for the user."""
    return (
        f"{lost}; the run ends. What it said itself, if it had time to, stands above; if nothing "
        "does, look for lack of memory (docs/runbook.md). The same command, with --run, goes on "
        "from the last checkpoint"
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
    watcher = Watcher(lambda: getattr(launcher, "procs", []), _parent())
    watcher.start()
    try:
        yield
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if _TALK.search(text) is None:
            watcher.stop()
            raise
        # The watcher stays, in case that closing down hangs.
        lost = _settled(watcher)
        watcher.said = True
        raise LostRankError(explain(lost) if lost else _unknown(text)) from error
    except BaseException:
        watcher.stop()
        raise
    watcher.stop()


def _unknown(text: str) -> str:
    """The line for the user where nobody on this machine is gone."""
    said = text.splitlines()[0].split(". This is")[0]  # what follows is advice for programmers
    if re.search("address already in use|EADDRINUSE", said, re.IGNORECASE):
        return f"the processes could not meet ({said}): set MASTER_PORT to a port that is free"
    happened = "lost the connection to another process"
    if re.search("time(d )?.?out", said, re.IGNORECASE):
        happened = "got no answer from another process within the timeout of the process group"
    launcher = _launcher()
    if launcher is not None and os.getppid() == launcher:
        # It has neither failed nor ended this process: it hangs itself, and would for ever.
        os.kill(launcher, signal.SIGKILL)
        happened += f"; the first one ({launcher}) hung, and was ended"
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

    Connections break a moment before their process has ended. And a process that was started by
    another gives that one the time to speak for all.
    """
    until = time.monotonic() + (_SETTLE if _launcher() is None else GRACE)
    while (lost := watcher.lost()) is None and time.monotonic() < until:
        time.sleep(0.05)
    return lost


def _retire_observers() -> None:
    """Let Lightning's own thread end: it kills this process without a word."""
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            thread._child_processes = []  # type: ignore[attr-defined] # no other way to stop it
