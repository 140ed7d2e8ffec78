"""Reads how many processors and how much memory the control groups of Linux leave a process."""

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
    """Lists the folders that hold limits for this process, its own group first.

    Version 2 has one tree, version 1 one for each kind of limit. In a container the path is often
    that of the host, which is not visible inside: hence the roots, too.
    """
    found: list[Path] = []
    for line in text_of(own).splitlines():
        kinds, _, path = line.partition(":")[2].partition(":")
        for top in (root / kind for kind in (kinds, *kinds.split(","))):
            place = top / path.strip("/")
            found += (p for p in (place, *place.parents) if p.is_relative_to(top))
    return [place for place in dict.fromkeys(found) if ".." not in place.parts and place.is_dir()]


def text_of(path: Path) -> str:
    """Returns the content of a file of the system; nothing where it cannot be read."""
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""


def _numbers(group: Path, *names: str) -> list[int]:
    """Reads the numbers of some files; `max` (no limit) gives an empty list."""
    words = [word for name in names for word in text_of(group / name).split()]
    return [] if "max" in words else [int(word) for word in words]


def cpu_limit(groups: list[Path]) -> float | None:
    """Returns how many processors the groups allow; None without a limit."""
    found = [_numbers(group, *names) for group, names in product(groups, _CPU)]
    return min((pair[0] / pair[1] for pair in found if pair and pair[0] > 0), default=None)


def memory_limit(groups: list[Path]) -> tuple[int, int] | None:
    """Returns the smallest limit of memory, and how much of it is used [bytes]."""
    limits = []
    for group, (limit, usage, cache) in product(groups, _MEMORY):
        # The system frees memory that caches files when a program needs it.
        cached = re.findall(rf"^{cache} (\d+)", text_of(group / "memory.stat"), re.MULTILINE)
        used = sum(_numbers(group, usage)) - sum(map(int, cached))
        limits += [(most, max(used, 0)) for most in _numbers(group, limit) if most < 2**60]
    return min(limits, default=None)


def cores(groups: list[Path] | None = None) -> float:
    """Returns how many processors this process may use, within the limits of its groups.

    Args:
        groups: folders of control groups; those of this process if not given.
    """
    limit = cpu_limit(control_groups() if groups is None else groups)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, limit or math.inf)
