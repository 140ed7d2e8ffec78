"""Reads the limits of processors and memory in the control groups of Linux."""

import math
import os
import re
from contextlib import suppress
from itertools import product
from pathlib import Path

_CPU = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
_MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of control groups, of version 2 and of version 1."""


def control_groups(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[Path]:
    """List the folders with limits for this process, its own group first."""
    folders: list[Path] = []
    for line in read_text(own).splitlines():
        kinds, _, path = line.partition(":")[2].partition(":")
        # Version 2 has one tree, version 1 one for each kind of limit.
        for top in (root / kind for kind in (kinds, *kinds.split(","))):
            group = top / path.strip("/")
            # And all its parents: in a container the path may be that of the host.
            folders += (p for p in (group, *group.parents) if p.is_relative_to(top))
    return [p for p in dict.fromkeys(folders) if ".." not in p.parts and p.is_dir()]


def read_text(path: Path) -> str:
    """Return the content of a file of the system; an empty string if it cannot be read."""
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""


def _numbers(group: Path, *names: str) -> list[int]:
    """Return the numbers in some files; an empty list for `max` (no limit)."""
    words = [word for name in names for word in read_text(group / name).split()]
    return [] if "max" in words else [int(word) for word in words]


def cpu_limit(groups: list[Path]) -> float | None:
    """Return the number of processors that the groups allow; None without a limit."""
    pairs = [_numbers(group, *names) for group, names in product(groups, _CPU)]
    # (quota, period) [microseconds]; version 1 writes -1 for no limit.
    return min((pair[0] / pair[1] for pair in pairs if pair and pair[0] > 0), default=None)


def memory_limit(groups: list[Path]) -> tuple[int, int] | None:
    """Return the smallest limit of memory, and how much of it is used [bytes]."""
    limits = []
    for group, (limit, usage, cache) in product(groups, _MEMORY):
        # The system frees memory that caches files when a program needs it.
        cached = re.findall(rf"^{cache} (\d+)", read_text(group / "memory.stat"), re.MULTILINE)
        used = sum(_numbers(group, usage)) - sum(map(int, cached))
        # Version 1 writes about 2^63 for no limit.
        limits += [(most, max(used, 0)) for most in _numbers(group, limit) if most < 2**60]
    return min(limits, default=None)


def cores(groups: list[Path] | None = None) -> float:
    """Return the number of processors that this process, or one in these groups, may use."""
    limit = cpu_limit(control_groups() if groups is None else groups)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, limit or math.inf)
