"""Runs cells in processes of this machine."""

import os
import queue
from concurrent.futures import Future, ThreadPoolExecutor

from app.processes.control_groups import cores
from app.study.runner import Outcome, Share, Stop, Tell, Work, run_cell
from app.study.study import Cell


class LocalExecutor:
    """Runs so many cells at a time, each with its share of the cores, or one GPU each.

    Args:
        work: settings and place of all cells.
        jobs: how many cells at a time.
        stop: asks them to stop.
        tell: is called with each stage that begins, from other threads.
    """

    def __init__(self, work: Work, jobs: int, *, stop: Stop, tell: Tell) -> None:
        self.slots = jobs
        self._work, self._stop, self._tell = work, stop, tell
        # The system kills a child when the thread that started it ends: these last to the end.
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="steadfast-study")
        self._shares: queue.SimpleQueue[Share] = queue.SimpleQueue()
        for share in shares(jobs):
            self._shares.put(share)

    def submit(self, cell: Cell) -> Future[Outcome]:
        """Begins a cell as soon as a share is free."""
        return self._threads.submit(self._run, cell)

    def close(self) -> None:
        """Waits for what still runs."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, cell: Cell) -> Outcome:
        share = self._shares.get()
        try:
            return run_cell(cell, self._work, share, stop=self._stop, tell=self._tell)
        finally:
            self._shares.put(share)


def shares(jobs: int) -> list[Share]:
    """Returns the part of this machine that each of several cells has."""
    import torch

    threads = max(1, int(cores()) // jobs)
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted):
        # Somebody says that the other cores are not free. Threads that wait for a core are many
        # times slower than one thread alone.
        threads = min(threads, int(wanted))
    count = torch.cuda.device_count()
    if count == 0:
        return [Share(threads=threads)] * jobs
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = given.split(",") if given else [str(index) for index in range(count)]
    return [Share(threads=threads, devices=names[i % count]) for i in range(jobs)]
