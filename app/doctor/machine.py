"""Checks processors, memory and disks, within the limits of the container."""

import fcntl
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

from app.doctor.findings import Finding, Status, judge

RUNS = "runs directory"
LITTLE = 2 * 2**30
_DOCKER_SHM = 64 * 2**20
_CPU = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
_MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of control groups, of version 2 and of version 1."""
_CACHES = ("HF_HOME", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def size(count: float) -> str:
    """Write a number of bytes with its unit."""
    power = min(int(math.log2(max(count, 1))) // 10, 4)
    digits = 0 if (amount := count / 1024**power) >= 100 or power < 2 else 1
    return f"{amount:.{digits}f} {('B', 'kB', 'MiB', 'GiB', 'TiB')[power]}"


def control_groups(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[Path]:
    """List the folders that hold limits for this process, its own group first.

    Version 2 has one tree, version 1 one for each kind of limit. In a container the path is often
    that of the host, which is not visible inside: hence the roots, too.
    """
    found: list[Path] = []
    for line in _text(own).splitlines():
        kinds, _, path = line.partition(":")[2].partition(":")
        for top in (root / kind for kind in (kinds, *kinds.split(","))):
            place = top / path.strip("/")
            found += (p for p in (place, *place.parents) if p.is_relative_to(top))
    return [place for place in dict.fromkeys(found) if ".." not in place.parts and place.is_dir()]


def _text(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""


def _numbers(group: Path, *names: str) -> list[int]:
    """Read the numbers of some files; `max` (no limit) gives an empty list."""
    words = [word for name in names for word in _text(group / name).split()]
    return [] if "max" in words else [int(word) for word in words]


def cpu_limit(groups: list[Path]) -> float | None:
    """Return how many processors the groups allow; None without a limit."""
    found = [_numbers(group, *names) for group, names in product(groups, _CPU)]
    return min((pair[0] / pair[1] for pair in found if pair and pair[0] > 0), default=None)


def memory_limit(groups: list[Path]) -> tuple[int, int] | None:
    """Return the smallest limit of memory, and how much of it is used [bytes]."""
    limits = []
    for group, (limit, usage, cache) in product(groups, _MEMORY):
        # The system frees memory that caches files when a program needs it.
        cached = re.findall(rf"^{cache} (\d+)", _text(group / "memory.stat"), re.MULTILINE)
        used = sum(_numbers(group, usage)) - sum(map(int, cached))
        limits += [(most, max(used, 0)) for most in _numbers(group, limit) if most < 2**60]
    return min(limits, default=None)


def crowded(name: str, found: str, many: object, cores: float) -> Finding:
    """Judge whether there are more threads than processors."""
    advice = f"more threads than processors are slow: set OMP_NUM_THREADS={cores:.0f}"
    return judge(name, found, (many, "warning", advice))


def cores(groups: list[Path]) -> float:
    """Return how many processors this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, cpu_limit(groups) or math.inf)


def check_machine(runs_dir: Path) -> Iterator[Finding]:
    """Check everything but the GPUs."""
    groups, given = control_groups(), os.environ
    yield from (check_cores(groups), check_memory(groups), check_shared_memory())
    advice = "make room, make this user the folder's owner, or choose another --runs_dir"
    yield check_folder(RUNS, runs_dir, "FAILED", advice)
    cache = given.get("XDG_CACHE_HOME") or Path(given.get("HOME") or "/", ".cache")
    for name in _CACHES:
        place = given.get(name) or (Path(cache, "huggingface") if name == "HF_HOME" else None)
        advice = f"set {name} to a writable folder (in a container: a volume); it holds the cache"
        if place:
            yield check_folder("caches", Path(place), "warning", advice)
    yield check_folder("temporary files", None, "FAILED", "set TMPDIR to a writable folder")


def check_cores(groups: list[Path]) -> Finding:
    """Check that torch will not start more threads than there are processors."""
    limit, every, threads = cpu_limit(groups), os.cpu_count(), os.environ.get("OMP_NUM_THREADS")
    found = f"{cores(groups):g} of {every} usable"
    found += f" (limited to {limit:g} by the control group)" if limit else ""
    found += f", OMP_NUM_THREADS={threads}" if threads else ""
    many = limit and every and limit < every / 2 and not threads
    return crowded("processors", found, many, max(int(limit or 1), 1))


def check_memory(groups: list[Path], meminfo: Path = Path("/proc/meminfo")) -> Finding:
    """Check how much memory is left."""
    told = re.findall(r"^Mem(?:Total|Available):\s+(\d+) kB", _text(meminfo), re.MULTILINE)
    left = [(int(told[1]) * 1024, int(told[0]) * 1024)] if len(told) == 2 else []
    if limited := memory_limit(groups):
        left.append((max(limited[0] - limited[1], 0), limited[0]))
    if not left:
        return judge("memory", "unknown on this system")
    available, total = min(left)
    found = f"{size(available)} of {size(total)} available"
    found += f" (the control group's limit is {size(limited[0])})" if limited else ""
    advice = "enough for small models; for more, stop other programs or raise the limit"
    return judge("memory", found, (available < LITTLE, "warning", advice))


def check_shared_memory(path: Path = Path("/dev/shm")) -> Finding:
    """Check how much memory processes can share."""
    if not path.exists():
        return judge("shared memory", f"no {path} on this system")
    total, _, free = shutil.disk_usage(path)
    advice = "data workers and several GPUs need more: docker run --shm-size 2g (Compose: shm_size)"
    found = f"{size(total)} in {path}, {size(free)} free"
    return judge("shared memory", found, (min(total, free) <= _DOCKER_SHM, "warning", advice))


def check_folder(name: str, folder: Path | None, status: Status, advice: str) -> Finding:
    """Check that files can be written into a folder (None: that of temporary files), or its parent.

    `status` and `advice` are those of a folder that cannot be written.
    """
    text, locks = b"written by `doctor`", False
    try:
        folder = folder or Path(tempfile.gettempdir())
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.NamedTemporaryFile(dir=place, prefix=".doctor.", buffering=0) as file:
            file.write(text)
            os.fsync(file)
            if Path(file.name).read_bytes() != text:
                msg = "the file system returns other bytes than it was given"
                raise OSError(msg)
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locks = True
        free = shutil.disk_usage(place).free
    except OSError as error:
        into = f" into {folder}" if folder else ""
        found = f"nothing can be written{into}: {error.strerror or error}"
        return Finding(name, status, found, advice)
    runs = name == RUNS
    full = "make room: a checkpoint with its optimiser is three times as large as the model"
    unlocked = "this file system has no locks: never use one run from two processes"
    return judge(
        name,
        f"{folder} can be written, {size(free)} free",
        (runs and free < LITTLE, "warning", full),
        (runs and not locks, "warning", unlocked),
    )
