"""The real command line in processes of its own, to which faults can be done.

A start of Python with torch takes seconds. So one server process loads the program once, and each
run is a fork of it: it reads its command line, and works and ends as `python -m app` does. With
`cold=True` it is exactly that: a new interpreter. What a library does when it is loaded, or as
Python ends (`atexit`), is seen in a new interpreter only.
"""

import contextlib
import math
import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

# Before torch is loaded, by the server too: tiny models gain nothing from threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.faults.child import Task, run
from tests.faults.injection import Fault

ROOT = Path(__file__).parents[2]
HANGS = 600
"""Seconds after which a program that should end by itself is taken to hang."""
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.faults.preload"])
_LOCK = threading.Lock()
"""Python's list of children is not made for several threads."""


def forked(target: Callable[..., object], *args: object) -> BaseProcess:
    """Starts a function in a process of the server."""
    with _LOCK, _environment(PYTHONPATH=str(ROOT)):
        process = _CONTEXT.Process(target=target, args=args)
        process.start()
    return process


class Outcome(NamedTuple):
    """What a shell would see; a negative status is the signal that ended the program."""

    status: int
    out: str
    err: str


class Forked:
    """A process of the server."""

    def __init__(self, task: Task) -> None:
        self._process = forked(run, task)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def wait(self, timeout: float | None = None) -> int | None:
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            with _LOCK:
                self._process.join(0)
                status = self._process.exitcode
            if status is not None or time.monotonic() >= until:
                return status
            time.sleep(0.005)

    # As of `subprocess.Popen`.

    @property
    def returncode(self) -> int | None:
        return self.wait(0)

    def poll(self) -> int | None:
        return self.wait(0)

    def send_signal(self, signum: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Piped(Forked):
    """A process of the server whose outputs are read while it runs.

    Args:
        arguments: the command line.
        where: working directory; that of the caller by default.
        module: see `Task`.
        settings: variables beside those of the caller.
    """

    def __init__(
        self,
        *arguments: str,
        where: Path | None = None,
        module: str = "app.__main__",
        **settings: str,
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = str(Path(folder) / "said")
            pipes = [log + end for end in (".out", ".err")]
            for pipe in pipes:
                os.mkfifo(pipe)
            at = str(where or Path.cwd())
            super().__init__(Task(list(arguments), at, log, variables(**settings), module=module))
            # Each waits until the process has opened it.
            self.stdout, self.stderr = (Path(pipe).open() for pipe in pipes)  # noqa: SIM115 (until `communicate`)

    def communicate(self) -> tuple[str, str]:
        """The rest of both outputs; comes back when no process holds their other ends any more."""
        if self.stdout.closed:  # asked for before
            return "", ""
        hangs = threading.Timer(HANGS, os.killpg, (self.pid, signal.SIGKILL))
        hangs.start()
        with ThreadPoolExecutor(2) as readers, self.stdout, self.stderr:
            out, err = readers.map(lambda stream: stream.read(), (self.stdout, self.stderr))
        hangs.cancel()
        self.wait()
        return out, err


class Cold:
    """A new interpreter."""

    def __init__(self, task: Task) -> None:
        with Path(task.log + ".out").open("ab") as out, Path(task.log + ".err").open("ab") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app", *task.arguments],
                cwd=task.where,
                env=task.environment,
                stdout=out,
                stderr=err,
                process_group=task.group,
            )
        self.pid = self._process.pid

    def wait(self, timeout: float | None = None) -> int | None:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


@dataclass
class Program:
    """A command that was started, as one or several processes.

    Attributes:
        command: for messages.
        log: where its output goes, without ending.
        processes: one for each rank that the harness has started.
    """

    command: str
    log: str
    processes: list[Forked | Cold] = field(default_factory=list)

    @property
    def group(self) -> int:
        """The process group, to which workers and ranks belong, too."""
        return self.processes[0].pid

    def running(self) -> bool:
        return self.processes[0].wait(0) is None

    def wait(self, timeout: float | None = None) -> Outcome | None:
        """Wait for the first process to end, and then for all others of its group."""
        status = self.processes[0].wait(timeout)
        if status is None:
            return None
        for process in self.processes[1:]:
            process.wait()
        while group_exists(self.group):
            time.sleep(0.005)
        return Outcome(status, *(Path(self.log + end).read_text() for end in (".out", ".err")))

    def ended(self) -> Outcome:
        """Wait to the end."""
        outcome = self.wait(HANGS)
        if outcome is None:
            said = self.kill().err
            raise AssertionError(f"still running after {HANGS} s: {self.command}\n{said}")
        return outcome

    def signal(self, signum: signal.Signals) -> None:
        """To the first process, as a shell's `kill`."""
        os.kill(self.group, signum)

    def kill(self) -> Outcome:
        """SIGKILL to all its processes at once, as when the machine goes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        return self.ended()


def in_group(process: Forked | Cold, group: int) -> bool:
    """Whether a process has come so far that it belongs to the group, or has ended already."""
    try:
        return process.wait(0) is not None or os.getpgid(process.pid) == group
    except ProcessLookupError:
        return True


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class Machine:
    """Starts programs in a directory, and leaves none behind.

    Args:
        where: working directory of all of them.
    """

    def __init__(self, where: Path) -> None:
        self.where = where
        self._programs: list[Program] = []

    def start(
        self,
        *arguments: str | Sequence[str],
        faults: Sequence[Fault] = (),
        ranks: int = 1,
        cold: bool = False,
        **environment: str,
    ) -> Program:
        """Start a command line.

        Args:
            arguments: the command line; nested lists are joined.
            faults: what goes wrong in the first process.
            ranks: processes, started as torchrun starts them.
            cold: new interpreters, in which no fault can be planted.
            environment: variables.
        """
        assert not (cold and faults)
        flat = [word for arg in arguments for word in ([arg] if isinstance(arg, str) else arg)]
        (self.where / "logs").mkdir(exist_ok=True)
        log = str(self.where / "logs" / f"{len(self._programs):04}")
        program = Program(shlex.join(flat), log)
        self._programs.append(program)
        port = free_port() if ranks > 1 else 0
        for rank in range(ranks):
            together = rank_variables(rank, ranks, port) if ranks > 1 else {}
            task = Task(
                arguments=flat,
                where=str(self.where),
                log=log + (f".{rank}" if rank else ""),
                environment=variables(**together, **environment),
                group=program.group if rank else 0,
                faults=() if rank else tuple(faults),
            )
            program.processes.append(Cold(task) if cold else Forked(task))
            # The others can only join a group that is there, and all have to be in it when it is
            # killed.
            while not in_group(program.processes[-1], program.group):
                time.sleep(0.001)
        return program

    def run(
        self,
        *arguments: str | Sequence[str],
        faults: Sequence[Fault] = (),
        ranks: int = 1,
        cold: bool = False,
        **environment: str,
    ) -> Outcome:
        """The same, to the end."""
        started = self.start(*arguments, faults=faults, ranks=ranks, cold=cold, **environment)
        return started.ended()

    def close(self) -> None:
        """Kill what still runs."""
        for program in self._programs:
            if program.processes and program.running():
                program.kill()


def rank_variables(rank: int, world: int, port: int) -> dict[str, str]:
    """What torchrun tells each process on one machine."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "faults",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def variables(**more: str) -> dict[str, str]:
    """The variables of this process, with which `app` is found from everywhere, and more."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
