"""Processors, memory and disks, as a container's limits leave them."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from app import atomic
from app.doctor.report import Check

GIB = 2**30
_UNLIMITED = 2**60
_LITTLE_MEMORY = 2 * GIB
_LITTLE_DISK = 2 * GIB
_DOCKER_SHM = 64 * 2**20


def size(count: float) -> str:
    """Bytes, for people."""
    unit = "B"
    for unit in ("B", "kB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 100 or unit in ("B", "kB") else f"{count:.1f} {unit}"


def control_groups(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[Path]:
    """The directories that hold limits for this process; those of its own group come first.

    Version 2 has one tree, version 1 one for each kind of limit. In a container the path is often
    that of the host, of which the container sees only the end: hence the roots, too.
    """
    try:
        entries = [line.split(":", 2) for line in own.read_text().splitlines()]
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for _, kinds, path in (entry for entry in entries if len(entry) == 3):
        tops = [root] if not kinds else [root / kinds, *(root / kind for kind in kinds.split(","))]
        for top in tops:
            place = top / path.strip("/")
            while place != top and top in place.parents:
                found.append(place)
                place = place.parent
            found.append(top)
    return [place for place in dict.fromkeys(found) if ".." not in place.parts and place.is_dir()]


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def cpu_limit(groups: list[Path]) -> float | None:
    """How many processors the groups allow, if they limit it."""
    limits = []
    for group in groups:
        with suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text().split()
            limits += [int(quota) / int(period)] if quota != "max" else []
        old, span = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
        if old is not None and old > 0 and span:
            limits.append(old / span)
    return min(limits, default=None)


def memory_limit(groups: list[Path]) -> tuple[int, int] | None:
    """The smallest limit of memory that the groups set, and what is used of it."""
    limits = []
    for group in groups:
        for limit_name, used_name, cache_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = _number(group / limit_name), _number(group / used_name)
            if limit is None or limit >= _UNLIMITED:
                continue
            cache = 0  # of files, given back when memory is asked for
            with suppress(OSError, ValueError):
                stat = (group / "memory.stat").read_text().splitlines()
                cache = int(dict(line.split() for line in stat).get(cache_name, 0))
            limits.append((limit, max((used or 0) - cache, 0)))
    return min(limits, default=None)


def cores(groups: list[Path]) -> float:
    """Processors that this process may use."""
    try:
        usable: float = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        usable = os.cpu_count() or 1
    limit = cpu_limit(groups)
    return usable if limit is None else min(usable, limit)


def check_cores(groups: list[Path]) -> Check:
    """How many processors there are."""
    limit, all_of_them = cpu_limit(groups), os.cpu_count()
    found = f"{cores(groups):g} of {all_of_them} usable"
    found += "" if limit is None else f" (limited to {limit:g} by the control group)"
    threads = os.environ.get("OMP_NUM_THREADS")
    found += f", OMP_NUM_THREADS={threads}" if threads else ""
    if limit is not None and all_of_them and limit < all_of_them / 2 and not threads:
        return Check(
            "processors",
            "warning",
            found,
            "torch will start a thread for each processor that it sees, and they will wait for "
            f"each other: set OMP_NUM_THREADS={max(int(limit), 1)}",
        )
    return Check("processors", "ok", found)


def check_memory(groups: list[Path], meminfo: Path = Path("/proc/meminfo")) -> Check:
    """How much memory is left."""
    total = available = None
    with suppress(OSError, ValueError, IndexError, KeyError):
        lines = (line.split() for line in meminfo.read_text().splitlines())
        values = {parts[0].rstrip(":"): int(parts[1]) * 1024 for parts in lines}
        total, available = values["MemTotal"], values["MemAvailable"]
    limited = memory_limit(groups)
    if limited is not None and (available is None or limited[0] - limited[1] < available):
        total, available = limited[0], max(limited[0] - limited[1], 0)
    if total is None or available is None:
        return Check("memory", "ok", "this system does not tell")
    found = f"{size(available)} of {size(total)} available"
    found += "" if limited is None else f" (the control group's limit is {size(limited[0])})"
    if available < _LITTLE_MEMORY:
        advice = (
            "small models on small corpora will do; else stop other programs or raise the limit"
        )
        return Check("memory", "warning", found, advice)
    return Check("memory", "ok", found)


def check_shared_memory(path: Path = Path("/dev/shm")) -> Check:
    """How much memory processes can share."""
    try:
        stat = os.statvfs(path)
    except OSError:
        return Check("shared memory", "ok", f"no {path} on this system")
    total, free = stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize
    found = f"{size(total)} in {path}, {size(free)} free"
    if total <= _DOCKER_SHM or free <= _DOCKER_SHM:
        return Check(
            "shared memory",
            "warning",
            found,
            "enough for --data.num_workers 0, the default; workers and several GPUs need more: "
            "docker run --shm-size 2g, shm_size in a Compose file",
        )
    return Check("shared memory", "ok", found)


def check_runs(path: Path) -> Check:
    """Whether runs can be written: done as they are, and taken away again."""
    made = [place for place in (path, *path.parents) if not place.exists()]
    probe = path / f".doctor.{os.getpid()}"
    locks = True
    try:
        atomic.write_text(probe, "written by `doctor`\n")
        with probe.open() as stream:
            readable = stream.read() == "written by `doctor`\n"
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                locks = False
        usage = shutil.disk_usage(path)
    except OSError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        return Check(
            "runs directory",
            "FAILED",
            f"nothing can be written into {path}: {cause.strerror or cause}",
            "make room, correct the owner or the permissions (containers: the user of the "
            "container must own the folder), or choose another --runs_dir",
        )
    finally:
        with suppress(OSError):
            probe.unlink()
        for place in made:
            with suppress(OSError):
                place.rmdir()
    found = f"{path} can be written, {size(usage.free)} free"
    if not readable:
        advice = "the file system returns other bytes than it was given: choose another --runs_dir"
        return Check("runs directory", "FAILED", found, advice)
    if usage.free < _LITTLE_DISK:
        advice = "a checkpoint has the size of its model, three times with the optimiser: make room"
        return Check("runs directory", "warning", found, advice)
    if not locks:
        advice = "this file system has no locks: two processes in one run will not be noticed"
        return Check("runs directory", "warning", found, advice)
    return Check("runs directory", "ok", found)


def writable(path: Path) -> str | None:
    """Why nothing can be written below a folder, which need not be there yet; None if it can."""
    place = next(place for place in (path, *path.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"written by `doctor`")
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


def check_caches() -> list[Check]:
    """Whether libraries can keep what they fetch and compile, and have room for temporary files."""
    home = Path(os.environ.get("HOME") or "/")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    places = {"HF_HOME": Path(os.environ.get("HF_HOME") or cache / "huggingface")}
    for name in ("TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        if os.environ.get(name):
            places[name] = Path(os.environ[name])
    wrong = {
        f"{name} {place}: {reason}"
        for name, place in places.items()
        if (reason := writable(place.absolute()))
    }
    if wrong:
        caches = Check(
            "caches",
            "warning",
            "; ".join(sorted(wrong)),
            "what is fetched from the hub cannot be kept: set these variables to folders that can "
            "be written (a volume, in a container)",
        )
    else:
        caches = Check("caches", "ok", ", ".join(f"{n} {p}" for n, p in places.items()))
    try:
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        advice = "set TMPDIR to a folder that can be written"
        return [caches, Check("temporary files", "FAILED", str(error), advice)]
    return [caches, Check("temporary files", "ok", f"{folder} can be written, {size(free)} free")]
