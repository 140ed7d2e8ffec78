"""Runs all cells: which start, which wait or are not run any more; on this machine, or by Ray."""

import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from app.study.runner import LOOK_INTERVAL, CellOutcome, Share, Stop, Tell, Work, run_cell
from app.study.study import Cell, StudyError
from run_files.program_folder import python_path
from text.error_reasons import describe_error
from text.extras import install
from training.control_groups import cores
from training.interrupt import restored_handlers

_TICK = 0.5
"""Seconds between two looks at the running cells."""


class Executor(Protocol):
    """Runs each cell as `runner.run_cell` does, at most `slots` at a time."""

    slots: int

    def submit(self, cell: Cell) -> Future[CellOutcome]:
        """Start a cell; the future has an exception if the machine itself fails."""

    def close(self) -> None:
        """End all cells that still run."""


class _Watch(Protocol):
    """Receives the events: starts and ends of cells (also of those that are not run), and time."""

    def begins(self, cell: Cell) -> None: ...
    def ends(self, cell: Cell, outcome: CellOutcome) -> None: ...
    def tick(self) -> None: ...


def run_all(
    cells: Sequence[Cell], executor: Executor, watch: _Watch, stop: Stop
) -> dict[str, CellOutcome]:
    """Run cells, each after the run that it needs, and return the outcomes by the names of runs.

    A failed cell does not stop the others. After a wish to stop, nothing new starts.
    """
    waiting, working = list(cells), dict[Future[CellOutcome], Cell]()
    outcomes: dict[str, CellOutcome] = {}
    runs = {cell.run for cell in cells}

    def end(cell: Cell, outcome: CellOutcome) -> None:
        outcomes[cell.run] = outcome
        watch.ends(cell, outcome)

    while waiting or working:
        # A copy, as cells leave the list.
        for cell in list(waiting):
            # A run outside of `cells` is expected to have ended.
            before = outcomes.get(cell.after or "")
            if stop.wished.is_set():
                end(cell, CellOutcome(state="stopped"))
            elif before is not None and before.state != "done":
                why = "failed" if before.state == "failed" else "was not run"
                reason = f"not run, because {cell.after} {why}"
                end(cell, CellOutcome(state="not run", error=reason))
            elif len(working) < executor.slots and (before or cell.after not in runs):
                watch.begins(cell)
                working[executor.submit(cell)] = cell
            else:
                continue
            waiting.remove(cell)
        # With a time limit, so that a wish to stop is noticed while all runs work.
        done, _ = wait(working, timeout=_TICK, return_when=FIRST_COMPLETED)
        for future in done:
            cell, error = working.pop(future), future.exception()
            end(cell, future.result() if error is None else _failed(error))
        watch.tick()
    return outcomes


# Processes of this machine


class LocalExecutor:
    """Runs several cells at a time, each with its share of the cores, or one GPU each."""

    def __init__(self, work: Work, jobs: int, *, stop: Stop, tell: Tell) -> None:
        self.slots = jobs
        self._work, self._stop, self._tell = work, stop, tell
        # Linux kills a child (`tied`) when the thread that started it ends: these threads stay.
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="steadfast-study")
        self._shares: queue.SimpleQueue[Share] = queue.SimpleQueue()
        for share in shares(jobs):
            self._shares.put(share)

    def submit(self, cell: Cell) -> Future[CellOutcome]:
        """Start a cell as soon as a share is free."""
        return self._threads.submit(self._run, cell)

    def close(self) -> None:
        """Wait for the cells that still run."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, cell: Cell) -> CellOutcome:
        share = self._shares.get()  # waits until one is free
        try:
            return run_cell(cell, self._work, share, stop=self._stop, tell=self._tell)
        finally:
            self._shares.put(share)


def shares(jobs: int) -> list[Share]:
    """Return the share of this machine for each of several cells."""
    import torch

    # The cores of the control group, not of the whole machine.
    threads = max(1, int(cores()) // jobs)
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit):
        # The user says that the other cores are busy; threads that wait for a core are many times
        # slower than a single thread.
        threads = min(threads, int(limit))
    count = torch.cuda.device_count()
    if count == 0:
        return [Share(threads=threads)] * jobs
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(index) for index in range(count)]
    return [Share(threads=threads, devices=names[i % count]) for i in range(jobs)]


# Tasks of a Ray cluster: a running one, or a new one on this machine


RETRIES = 20
"""Restarts of a cell whose node has died; each resumes from the saved state."""
_ENVIRONMENT = {
    # Ray sends no usage statistics.
    "RAY_USAGE_STATS_ENABLED": "0",
    # A task without a GPU keeps CUDA_VISIBLE_DEVICES, as later versions of Ray do by default.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_CONNECT_TIMEOUT = 10.0
"""Seconds in which a cluster must answer."""
_FILE_TIMEOUT = 30.0
"""Seconds after which a file of another machine must be visible here."""


class RayExecutor:
    """Runs several cells at a time as Ray tasks, each with its share of the cluster.

    A cell whose node has died starts again on another one and resumes from its saved state: all
    nodes must see one runs directory at one path. An address is `auto`, `HOST:PORT` or
    `ray://HOST:PORT`; None starts a cluster on this machine, which ends with the study.

    Raises:
        StudyError: Ray is not installed, or no cluster answers.
    """

    def __init__(self, work: Work, jobs: int, *, stop: Stop, address: str | None = None) -> None:
        self.slots = jobs
        self._work, self._stop = work, stop
        self._ray = _connect(address)
        self._threads, gpus = share_of(self._ray.nodes(), jobs)
        self._remote = self._ray.remote(_task).options(
            num_cpus=self._threads, num_gpus=gpus, max_retries=RETRIES
        )
        self._tasks: set[Any] = set()
        self._lock = threading.Lock()
        self._waiting = ThreadPoolExecutor(jobs, thread_name_prefix="steadfast-ray")
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, cell: Cell) -> Future[CellOutcome]:
        """Give a cell to Ray."""
        return self._waiting.submit(self._run, cell)

    def close(self) -> None:
        """End the cells that still run, and the cluster if it was started here."""
        self._cancel()
        self._waiting.shutdown(wait=True, cancel_futures=True)
        self._closed.set()
        self._ray.shutdown()

    def _run(self, cell: Cell) -> CellOutcome:
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        task = self._remote.remote(cell, self._work, self._threads)
        with self._lock:
            self._tasks.add(task)
        # An earlier wish to stop has not cancelled this task.
        if self._stop.wished.is_set():
            self._cancel()
        try:
            outcome: CellOutcome = self._ray.get(task)
        except TaskCancelledError:
            return CellOutcome(state="stopped")
        except RayTaskError as error:
            return _failed(error.cause or error)
        except RayError as error:
            return _failed(error)
        finally:
            with self._lock:
                self._tasks.discard(task)
        run = Path(self._work.where, self._work.context.runs_dir, cell.run)
        # A file of another machine may come late.
        deadline = time.monotonic() + _FILE_TIMEOUT
        while outcome.state == "done" and not (run / "config.yaml").is_file():
            if time.monotonic() > deadline:
                reason = (
                    f"has ended, but {run} is not here, expected --runs_dir on a file system that "
                    "all nodes of the cluster share"
                )
                return CellOutcome(state="failed", error=reason)
            time.sleep(LOOK_INTERVAL)
        return outcome

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_INTERVAL):
            if self._stop.wished.is_set():
                self._cancel()
                return

    def _cancel(self) -> None:
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            self._ray.cancel(task, force=False, recursive=False)


def _task(cell: Cell, work: Work, threads: int) -> CellOutcome:
    """Run a cell on the node that Ray has chosen; a cancelled one saves its state."""
    stop = Stop()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            run_cell, cell, work, Share(threads=threads), stop=stop, tell=lambda *_: None
        )
        while True:
            try:
                # With a timeout: Ray's KeyboardInterrupt does not wake a thread that waits without.
                return running.result(timeout=LOOK_INTERVAL)
            except TimeoutError:
                if running.done():
                    raise
            except KeyboardInterrupt:
                stop.wish()


def share_of(nodes: Sequence[Mapping[str, Any]], jobs: int) -> tuple[int, int]:
    """Return the CPUs and GPUs of each cell: as many CPUs as let all jobs run at a time."""
    resources = [node.get("Resources", {}) for node in nodes if node.get("Alive")]
    cpus = [int(node.get("CPU", 0)) for node in resources]
    threads = max(cpus, default=1)
    # A cell does not spread over nodes.
    while threads > 1 and sum(count // threads for count in cpus) < jobs:
        threads -= 1
    return max(1, threads), int(any(node.get("GPU", 0) >= 1 for node in resources))


def _connect(address: str | None) -> Any:
    """Return `ray`, connected to a cluster; a StudyError if it is not installed or none answers."""
    os.environ.update(_ENVIRONMENT)
    try:
        import ray
    except ImportError as error:
        msg = (
            "got --executor ray without Ray, expected it to be installed: "
            f"{install('ray')} (in a checkout: pip install ray)"
        )
        raise StudyError(msg) from error
    options: dict[str, Any] = {
        "address": address or "local",
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        # Workers find the program from any working directory.
        "runtime_env": {"env_vars": {**_ENVIRONMENT, "PYTHONPATH": python_path()}},
    }
    if address is None:
        options |= {"num_cpus": max(1, int(cores())), "include_dashboard": False}
    try:
        _check_answers(address)
        # `study` has its own handlers of SIGTERM and Ctrl-C, which Ray replaces.
        with restored_handlers():
            ray.init(**options)
    except (OSError, ValueError, RuntimeError) as error:
        msg = (
            f"got no Ray cluster at {address or 'this machine'} ({describe_error(error):.200}), "
            "expected one that runs: `ray start --head`, or leave --ray_address out for one on "
            "this machine"
        )
        raise StudyError(msg) from error
    return ray


def _check_answers(address: str | None) -> None:
    """Check that a cluster listens; Ray itself would try for minutes."""
    if address in (None, "auto", "local"):
        return
    url = urlsplit(address if "://" in str(address) else f"//{address}")
    if url.hostname is None or url.port is None:
        msg = "expected auto, HOST:PORT or ray://HOST:PORT"
        raise ValueError(msg)
    socket.create_connection((url.hostname, url.port), timeout=_CONNECT_TIMEOUT).close()


def _failed(error: BaseException) -> CellOutcome:
    text = " ".join(str(error).split())
    return CellOutcome(state="failed", error=f"{type(error).__name__}: {text:.300}")
