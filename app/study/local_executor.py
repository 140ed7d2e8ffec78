"""Runs cells in processes of this machine."""

import os
import queue
from concurrent.futures import Future, ThreadPoolExecutor

from app.study.runner import CellOutcome, Share, Stop, Tell, Work, run_cell
from app.study.study import Cell
from training.control_groups import cores


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
