"""Runs one cell: each remaining stage as a command in its own process."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from app.study.cell_check import Kind, Parsed, kind_of
from app.study.cells import TRAINING, StudyContext, command_line
from app.study.reuse import UNREAD, check_run, check_start, missing
from app.study.study import Cell, Stage
from run_files.program_folder import MODULE, python_path
from run_files.run_directory import RunDirectory
from text.error_reasons import describe_error

State = Literal["done", "failed", "not run", "stopped"]
Tell = Callable[[Cell, str], None]
"""Reports what a cell does now."""
_TIED = Path(__file__).with_name("tied.py")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
LOOK_INTERVAL = 0.2
"""Seconds between two looks at a lock or at a wish to stop."""


@dataclass(frozen=True, kw_only=True)
class CellOutcome:
    """The end of a cell; the next call resumes one that a signal has stopped."""

    state: State
    error: str = ""  # last line of the failed command, or the reason that the cell did not run
    log: str = ""  # the file with the output of the failed command


@dataclass(frozen=True, kw_only=True)
class Share:
    """The part of a machine for one cell; devices of None do not set CUDA_VISIBLE_DEVICES."""

    threads: int
    devices: str | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment of its processes."""
        threads = {name: str(self.threads) for name in _THREADS}
        devices = {} if self.devices is None else {"CUDA_VISIBLE_DEVICES": self.devices}
        return {**os.environ, "PYTHONPATH": python_path(), **threads, **devices}


@dataclass(frozen=True, kw_only=True)
class Work:
    """All that a machine needs to run any cell in directory `where`; it can be pickled."""

    context: StudyContext
    settings: Mapping[Kind, tuple[Parsed, ...]]
    where: str = field(default_factory=os.getcwd)

    def log(self, cell: Cell, number: int) -> Path:
        """Return the file for the output of a stage."""
        *before, command = [stage.command for stage in cell.stages[: number + 1]]
        again = before.count(command)
        name = f"{cell.run}.{command}{again + 1 if again else ''}.log"
        return Path(self.where, self.context.out, "logs", name)


class Stop:
    """A request to stop, and the processes that get it.

    The first `wish` sends SIGTERM to all, so that they save their state; the second kills them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.wished = threading.Event()

    @contextlib.contextmanager
    def hears(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Pass a request on to a process inside the block; kill it if it outlives the block."""
        with self._lock:
            self._processes.add(process)
        if self.wished.is_set():
            process.terminate()
        try:
            yield
        finally:
            with self._lock:
                self._processes.discard(process)
            if process.poll() is None:
                _kill(process)

    def wish(self) -> None:
        """Ask all processes to stop; the second call kills them."""
        again = self.wished.is_set()
        self.wished.set()
        with self._lock:
            for process in self._processes:
                if again:
                    _kill(process)
                else:
                    process.terminate()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        # The group has the data workers of the command as well.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class CellState(NamedTuple):
    """The state of a cell that is not running, and the number of its ended stages."""

    words: str
    ended: int
    error: str = ""  # the reason that its run cannot be used for the study


def state_of(cell: Cell, work: Work) -> CellState:
    """Return the state of a cell that is not running."""
    run = RunDirectory(Path(work.where, work.context.runs_dir, cell.run))
    for number, (stage, settings) in enumerate(_stages(cell, work)):
        try:
            _check(cell, stage, run, settings, work)
            if (reason := missing(run, stage, settings)) is not None:
                begun = "begun" if run.begun and number == 0 else ""
                following = f"next: {stage.command} ({reason})" if number else "open"
                return CellState(begun or following, number)
        except (ValueError, OSError) as error:
            return CellState(f"refused: {error}", number, describe_error(error))
    return CellState("done", len(cell.stages))


def run_cell(cell: Cell, work: Work, share: Share, *, stop: Stop, tell: Tell) -> CellOutcome:
    """Run the remaining stages of a cell; `tell` is called with each one, and with a wait."""
    where = Path(work.where)
    run = RunDirectory(where / work.context.runs_dir / cell.run)
    lock = where / work.context.out / "locks" / cell.run
    with _alone(lock, stop, lambda: tell(cell, "waiting for another command that runs it")) as mine:
        if not mine:
            return CellOutcome(state="stopped")
        share, note = _as_begun(run, share)
        for number, (stage, settings) in enumerate(_stages(cell, work)):
            try:
                _check(cell, stage, run, settings, work)
                reason = missing(run, stage, settings)
            except (ValueError, OSError) as error:
                return CellOutcome(state="failed", error=describe_error(error))
            if reason is None:
                continue
            # A measurement that runs again is printed with its reason.
            again = stage.command not in TRAINING and reason.startswith("measured with")
            tell(cell, f"{stage.command} ({reason})" if again else f"{stage.command}{note}")
            log = work.log(cell, number)
            # The output goes to a file, so that several cells do not mix theirs.
            status = _run(command_line(cell, stage, work.context), log, work, share, stop)
            if stop.wished.is_set():
                return CellOutcome(state="stopped")
            if status != 0:
                failure = f"{stage.command}: {_last_line(log, status)}"
                return CellOutcome(state="failed", error=failure, log=str(log))
            if (reason := missing(run, stage, settings)) is not None:
                failure = f"{stage.command}: has ended, and yet: {reason}"
                return CellOutcome(state="failed", error=failure, log=str(log))
    return CellOutcome(state="done")


def _as_begun(run: RunDirectory, share: Share) -> tuple[Share, str]:
    """Return a share with the threads of a begun run, and a note if these differ."""
    # Another number of threads would change the last bits of all weights.
    from training.arithmetic import recorded_threads

    threads = recorded_threads(run) if run.begun else None
    if threads is None or threads == share.threads:
        return share, ""
    return replace(share, threads=threads), f" ({threads} threads, as it was begun)"


def _check(cell: Cell, stage: Stage, run: RunDirectory, settings: Parsed, work: Work) -> None:
    """Refuse a run with other settings, or with other weights at its start."""
    if "model" in settings:  # `diagnose` and `certify --threat` take the model from the run
        check_run(run, settings, cell.start, () if stage.command in TRAINING else stage.options)
    check_start(cell, work.context, Path(work.where), begun=run.begun)


def _stages(cell: Cell, work: Work) -> Iterator[tuple[Stage, dict[str, Any]]]:
    """Yield the stages with their settings for the seed of this cell."""
    # They were parsed for one seed of each kind.
    for stage, settings in zip(cell.stages, work.settings[kind_of(cell)], strict=True):
        unread = {UNREAD: True} if work.context.runs_only else {}
        yield stage, {**settings, "seed_everything": cell.seed, **unread}


@contextlib.contextmanager
def _alone(path: Path, stop: Stop, waits: Callable[[], None]) -> Iterator[bool]:
    """Wait for the lock of a cell; yield False if a request to stop comes first.

    `waits` is called once, if another process has the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    told = False
    with path.open("wb") as stream:
        while not stop.wished.is_set():
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    waits()
                    told = True
                time.sleep(LOOK_INTERVAL)
                continue
            except OSError:  # a file system without locks
                pass
            yield True
            return
        yield False


def _run(line: list[str], log: Path, work: Work, share: Share, stop: Stop) -> int:
    """Run a command to its end; return its exit status, negative for a signal."""
    log.parent.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, "-m", MODULE, *line]
    with log.open("ab", buffering=0) as stream:
        try:
            stream.write(f"$ {' '.join(['steadfast', *line])}\n".encode())
        except OSError as error:
            error.filename = str(log)
            raise
        # tied.py ends the command if this process dies, and a group lets `kill` reach its children.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), *program],
            cwd=work.where,
            env=share.environment(),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        with stop.hears(process):
            return process.wait()


def _last_line(log: Path, status: int) -> str:
    """Return the last line of the output of a failed command, an error if possible."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    text = log.read_text(encoding="utf-8", errors="replace")
    # The log has the earlier starts as well; each begins with its command line.
    lines = text.rpartition("\n$ ")[2].splitlines()[1:]
    printed = [line.strip() for line in lines if line.strip()]
    errors = [line for line in printed if line.startswith("error: ")]
    return (errors or printed or [f"exit status {status}"])[-1].removeprefix("error: ")
