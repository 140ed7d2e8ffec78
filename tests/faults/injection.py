"""Faults, as objects that are planted in a process before the program begins in it."""

import errno
import functools
import importlib
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

CHANGES = {
    "os.rename": 2,
    "os.link": 2,
    "os.remove": 1,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
}
"""Audit events of changes beside the opening of files, and how many arguments are paths."""


class Fault(Protocol):
    """Something that goes wrong."""

    def plant(self) -> None:
        """Prepare it in this process."""


def die() -> None:
    """SIGKILL to all processes of the run at once, as when the machine goes."""
    os.killpg(0, signal.SIGKILL)


@dataclass(frozen=True)
class KillAtHook:
    """Killed when a hook of the module is called for the n-th time in this process.

    Args:
        hook: for example `on_train_batch_start` or `on_validation_batch_start`.
        calls: how many calls are survived.
        alone: only this process dies, and not all of the run.
        owner: module and class that has the hook.
    """

    hook: str
    calls: int = 0
    alone: bool = False
    owner: tuple[str, str] = ("pytorch_lightning", "LightningModule")

    def plant(self) -> None:
        module, name = self.owner
        left = self.calls

        def before() -> None:
            nonlocal left
            if left == 0:
                if self.alone:
                    os.kill(os.getpid(), signal.SIGKILL)
                die()
            left -= 1

        wrap(getattr(importlib.import_module(module), name), self.hook, before)


@dataclass(frozen=True)
class KillAtChange:
    """Killed just before the n-th change to files in a directory: created, renamed or removed.

    Every such change is one of the places where a program can leave things half-done. They are
    found by Python's audit events, without knowing what the program does.

    Args:
        inside: the directory.
        survived: how many changes happen.
        log: file to which the changes are written, one line each; none if empty.
    """

    inside: str
    survived: int
    log: str = ""

    def plant(self) -> None:
        root = os.path.realpath(self.inside)
        seen = 0

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal seen
            places = changed(event, args)
            if not places or not places[-1].startswith(root):
                return
            if seen == self.survived:
                die()
            seen += 1
            if self.log:
                names = " -> ".join(os.path.relpath(place, root) for place in places)
                line = f"{event.removeprefix('os.')} {re.sub('[0-9]{2,}', 'N', names)}\n"
                os.write(log, line.encode())

        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if self.log else -1
        sys.addaudithook(hook)


def changed(event: str, args: tuple[Any, ...]) -> list[str]:
    """The files and directories that an audit event is about to change, if it is about any."""
    if event == "open":
        if not (isinstance(args[2], int) and args[2] & os.O_CREAT):
            return []
    elif event not in CHANGES:
        return []
    paths = args[: CHANGES.get(event, 1)]
    if not all(isinstance(path, str | bytes | os.PathLike) for path in paths):
        return []
    places = [os.path.abspath(os.fsdecode(path)) for path in paths]  # noqa: PTH100 (called at every event: no objects)
    # What is there cannot be made, and what is not cannot be removed.
    exists = os.path.lexists(places[0])
    useless = exists if event == "os.mkdir" else event == "os.remove" and not exists
    return [] if useless else places


@dataclass(frozen=True)
class SmallFiles:
    """No file may grow beyond a size, as by a quota; the kernel refuses the rest of the bytes.

    Args:
        size: in bytes.
        hook: from which hook of the module on; from the start if empty.
    """

    size: int
    hook: str = ""

    def plant(self) -> None:
        def limit() -> None:
            # Without this, the signal would end the process before the error is seen.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))

        if not self.hook:
            limit()
            return
        import pytorch_lightning as pl

        wrap(pl.LightningModule, self.hook, limit)


@dataclass(frozen=True)
class Unwritable:
    """Files whose path holds a word cannot be opened for writing.

    Args:
        word: part of the path.
        survived: how many are written before that.
        error: what the system says: no space left, or for example a read-only file system.
    """

    word: str
    survived: int = 0
    error: int = errno.ENOSPC

    def plant(self) -> None:
        left = self.survived

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal left
            if event != "open" or not any(self.word in place for place in changed(event, args)):
                return
            if left == 0:
                raise OSError(self.error, os.strerror(self.error), os.fsdecode(args[0]))
            left -= 1

        sys.addaudithook(hook)


@dataclass(frozen=True)
class Raises:
    """A hook of the module raises when it is called for the n-th time, as a bug or a GPU would.

    Args:
        hook: of the module.
        calls: how many calls are survived.
    """

    hook: str
    calls: int = 0

    def plant(self) -> None:
        import pytorch_lightning as pl

        wrap(pl.LightningModule, self.hook, raising(self.calls))


@dataclass(frozen=True)
class NotANumber:
    """The loss of one training batch is NaN.

    Args:
        calls: how many batches are survived.
    """

    calls: int

    def plant(self) -> None:
        import lit_modules

        real: Any = lit_modules.TaskModule.training_step
        left = self.calls

        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            loss = real(*args, **kwargs)
            return loss * float("nan") if left == -1 else loss

        setattr(lit_modules.TaskModule, "training_step", step)  # noqa: B010 (mypy forbids to assign to a method)


@dataclass(frozen=True)
class RaisesInMetrics:
    """The file of metrics raises before it writes the n-th row, as a signal's handler may anywhere.

    Args:
        calls: how many calls are survived.
    """

    calls: int

    def plant(self) -> None:
        from training.metrics_file import MetricsFile

        wrap(MetricsFile, "log_metrics", raising(self.calls))


@dataclass(frozen=True)
class KillWorker:
    """SIGKILL to a worker of the training's loader, as the system does when memory is short.

    Args:
        batches: how many are survived.
    """

    batches: int

    def plant(self) -> None:
        import multiprocessing

        import pytorch_lightning as pl

        left = self.batches

        def before() -> None:
            nonlocal left
            left -= 1
            if left == -1:
                for worker in multiprocessing.active_children()[:1]:
                    worker.kill()

        wrap(pl.LightningModule, "on_train_batch_start", before)


@dataclass(frozen=True)
class Clock:
    """The clocks jump when a hook of the module is called.

    Args:
        hook: of the module.
        seconds: how far; back if negative.
    """

    hook: str
    seconds: float

    def plant(self) -> None:
        import time

        import pytorch_lightning as pl

        real = time.time
        jumped = False

        def jump() -> None:
            nonlocal jumped
            jumped = True

        wrap(pl.LightningModule, self.hook, jump)
        time.time = lambda: real() + (self.seconds if jumped else 0)


@dataclass(frozen=True)
class Phases:
    """Notes in a file what the program is doing; killed some time into a phase, if one is named.

    Args:
        path: the file; sixteen bytes, always whole.
        kill_in: the phase.
        times: how often it is entered and survived.
        after: seconds in the phase.
    """

    path: str
    kill_in: str = ""
    times: int = 0
    after: float = 0.0

    def plant(self) -> None:
        import torch
        from pytorch_lightning import LightningModule, Trainer

        import certify
        import datamodules
        import run_files.results

        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT)

        left = self.times

        def note(phase: str) -> None:
            nonlocal left
            os.pwrite(descriptor, phase.ljust(16).encode(), 0)
            if phase == self.kill_in:
                if left == 0:
                    threading.Timer(self.after, die).start()
                left -= 1

        note("start")
        for owner, name, phase, after in (
            (datamodules.TextDataModule, "setup", "data", "start"),
            (torch, "load", "restoring", "start"),
            (Trainer, "save_checkpoint", "checkpoint", "training"),
            (run_files.results, "merge", "results", "start"),
        ):
            during(owner, name, note, phase, after)
        for name, phase in (
            ("on_train_batch_start", "training"),
            ("on_validation_batch_start", "validation"),
        ):
            wrap(LightningModule, name, functools.partial(note, phase))

        wrap(LightningModule, "on_test_batch_start", functools.partial(note, "test"))
        wrap(certify.Certifier, "__call__", functools.partial(note, "certify"))


def raising(calls: int) -> Callable[[], None]:
    """Returns a function that raises when it is called once more than so often."""
    left = calls

    def before() -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise RuntimeError("planted")

    return before


def wrap(owner: Any, name: str, before: Callable[[], None]) -> None:
    """Have `before` called at each call of `owner.name`, first."""
    real = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before()
        return real(*args, **kwargs)

    setattr(owner, name, wrapped)


def during(owner: Any, name: str, note: Callable[[str], None], phase: str, after: str) -> None:
    """Have `phase` noted while `owner.name` runs, and `after` at its end."""
    real = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        note(phase)
        try:
            return real(*args, **kwargs)
        finally:
            note(after)

    setattr(owner, name, wrapped)
