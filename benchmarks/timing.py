"""Time and memory of pieces of work that are compared within one run."""

import math
import multiprocessing
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import torch

A = TypeVar("A")
K = TypeVar("K")
R = TypeVar("R")
MIB = 2**20


class Times(NamedTuple):
    """Seconds of the wall clock and of the processor of this process alone.

    `peak` is MiB of the GPU in use at most; None on a CPU.
    """

    wall: float
    processor: float
    peak: float | None = None

    @property
    def compared(self) -> float:
        """Seconds that ratios are made of: of the processor on a CPU, else of the wall clock."""
        return self.processor if self.peak is None else self.wall


def time_work(work: Callable[[], object], device: str = "cpu") -> Times:
    """Measure some work until the device has done it."""
    on_gpu = device == "cuda"
    if on_gpu:
        torch.cuda.synchronize()
        # Kernels of earlier work must neither run nor count.
        torch.cuda.reset_peak_memory_stats()
    wall, processor = time.perf_counter(), time.process_time()
    work()
    if on_gpu:
        torch.cuda.synchronize()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return Times(wall, processor, torch.cuda.max_memory_allocated() / MIB if on_gpu else None)


def rounds(
    ways: Sequence[K], once: Callable[[K, A], R], inputs: Iterable[A], *, alternate: bool = False
) -> dict[K, list[R]]:
    """Measure each way on each input in turn, so that all ways see the same machine.

    The first round pays for start-up and is left out; `alternate` begins every second round with
    the last way.
    """
    results: dict[K, list[R]] = {way: [] for way in ways}
    for number, value in enumerate(inputs):
        # Alternating, so that no way always runs after the same one.
        for way in ways[:: -1 if alternate and number % 2 == 0 else 1]:
            result = once(way, value)
            # Round 0 is not kept: it pays for imports, caches and thread pools.
            if number:
                results[way].append(result)
    return results


def median_seconds(
    ways: Mapping[K, Callable[[], object]],
    repeats: int,
    device: str = "cpu",
    *,
    alternate: bool = False,
) -> dict[K, float]:
    """Return the median seconds of each way, see `Times.compared`, over rounds in turns."""
    measured = rounds(
        list(ways),
        lambda way, _: time_work(ways[way], device),
        range(repeats + 1),
        alternate=alternate,
    )
    return {way: median(times.compared for times in each) for way, each in measured.items()}


def in_memory(field: str, process: int | str = "self") -> float:
    """Return the MiB of VmRSS or VmHWM (the most so far) of a process; NaN but on Linux."""
    status = Path(f"/proc/{process}/status")
    match = re.search(rf"{field}:\s+(\d+)", status.read_text()) if status.is_file() else None
    return int(match[1]) / 1024 if match else math.nan


def resident() -> float:
    """Return the MiB that this program had in memory at most."""
    peak = in_memory("VmHWM")
    if not math.isnan(peak):
        return peak
    # Linux would add the peak of the process before the program; macOS counts bytes, others KiB.
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (used if sys.platform == "darwin" else used * 1024) / MIB


def in_fresh_process(work: Callable[..., R], *args: object) -> R:
    """Return the result of some work in a new process: the peak of a process never sinks."""
    # spawn: a forked child would begin with the memory of its parent.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args).result()


@contextmanager
def silence() -> Iterator[None]:
    """Drop all output inside the context."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
