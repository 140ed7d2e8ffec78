"""Cost of the spinning of OpenMP's threads while they wait, with cores idle and shared.

    python -m benchmarks.openmp_wait [--threads 2 --steps 40 --repeats 5]

Forward and backward passes of one Transformer layer, in a fresh process for each measurement:
OpenMP reads `OMP_WAIT_POLICY` only when it is loaded. `spins` is the default of the OpenMP that
torch brings along, `sleeps` is PASSIVE, which every command of the program sets. `shared`: another
program uses all cores, with one process for each.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from statistics import median

from benchmarks.command import command, heading, save, settings, table
from training.control_groups import cores

WORK = """
import sys, time, torch
steps, threads = map(int, sys.argv[1:])
torch.set_num_threads(threads)
layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
batch = torch.randn(32, 64, 64)
for step in range(steps + 3):
    if step == 3:
        began = time.perf_counter()
    layer.zero_grad()
    layer(batch).square().mean().backward()
print((time.perf_counter() - began) / steps)
"""
"""Prints the seconds of a step; imports nothing that would set the variable."""
WAITS = {"spins": {}, "sleeps": {"OMP_WAIT_POLICY": "PASSIVE"}}
_NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS")


def main() -> None:
    """Print a table."""
    usable = max(int(cores()), 1)
    parser = command(__doc__, "repeats", "out", threads=usable)
    parser.add_argument("--steps", type=int, default=40, help="steps of a measurement")
    options = parser.parse_args()
    load = settings(options, "threads", "steps", "repeats")
    times: dict[tuple[str, str], list[float]] = {}
    for _, machine in product(range(options.repeats), ("idle", "shared")):
        # One spinning process for each core, as on a shared machine.
        with _busy(usable if machine == "shared" else 0):
            for way in WAITS:
                seconds = measure(way, steps=options.steps, threads=options.threads)
                times.setdefault((machine, way), []).append(seconds)
    rows = []
    for machine in ("idle", "shared"):
        spins, sleeps = (1e3 * median(times[machine, way]) for way in WAITS)
        rows.append((machine, spins, sleeps, spins / sleeps))
    print(heading({**load, "cores": usable}))
    print(table(["cores", "spins, ms a step", "sleeps, ms a step", "ratio"], rows))
    names = ("cores", "spins", "sleeps", "ratio")
    save(options.out, {**load, "rows": [dict(zip(names, row, strict=True)) for row in rows]})


def measure(way: str, *, steps: int, threads: int) -> float:
    """Return the seconds of a step in a fresh process, for a way of `WAITS`."""
    # The child must not inherit a setting of this process.
    clean = {name: value for name, value in os.environ.items() if name not in _NAMES}
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(steps), str(threads)],
        env=clean | WAITS[way],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """Let so many other processes spin inside the context."""
    spin = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(spin) for _ in range(count)]
    try:
        yield
    finally:
        for other in programs:
            other.kill()
            other.wait()


if __name__ == "__main__":
    main()
