"""Checks memory and disks, within the limits of the container."""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from app.doctor.findings import Finding, Status, judge
from app.doctor.trial_process import Trial
from training.control_groups import control_groups, memory_limit, read_text

RUNS = "runs directory"
LITTLE = 2 * 2**30
# The default of Docker for /dev/shm.
_DOCKER_SHM = 64 * 2**20


def size(count: float) -> str:
    """Write a number of bytes in GiB."""
    return f"{count / 2**30:.1f} GiB"


def of_machine(runs_dir: Path) -> Iterator[Trial]:
    """List the trials of memory and disks."""
    yield memory()
    advice = "make room, make this user the folder's owner, or choose another --runs_dir"
    yield folder(RUNS, runs_dir, "FAILED", advice)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache"))
    hub = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    advice = "set HF_HOME to a writable folder (in a container: a volume); it holds the cache"
    yield folder("cache of the hub", hub, "warning", advice)
    yield folder("temporary files", None, "FAILED", "set TMPDIR to a writable folder")


def memory() -> Trial:
    """Check how much memory is available, and how much processes can share."""
    yield Finding("memory", "warning", "cannot be read: ")
    yield check_memory(control_groups())
    if (shared := Path("/dev/shm")).exists():  # as on Linux
        yield check_shared_memory(shared)


def check_memory(groups: list[Path], meminfo: Path = Path("/proc/meminfo")) -> Finding:
    """Check how much memory is available."""
    lines = re.findall(r"^Mem(?:Total|Available):\s+(\d+) kB", read_text(meminfo), re.MULTILINE)
    # Pairs (available, total) [bytes] of the machine and of the control group: the smaller counts.
    memories = [(int(lines[1]) * 1024, int(lines[0]) * 1024)] if len(lines) == 2 else []
    if limit := memory_limit(groups):
        memories.append((max(limit[0] - limit[1], 0), limit[0]))
    if not memories:
        return judge("memory", "unknown on this system")
    available, total = min(memories)
    observation = f"{size(available)} of {size(total)} available"
    observation += f" (the control group's limit is {size(limit[0])})" if limit else ""
    advice = "enough for small models; for more, stop other programs or raise the limit"
    return judge("memory", observation, (available < LITTLE, "warning", advice))


def check_shared_memory(path: Path) -> Finding:
    """Check how much memory processes can share."""
    total, _, free = shutil.disk_usage(path)
    advice = "data workers and several GPUs need more: docker run --shm-size 2g (Compose: shm_size)"
    observation = f"{size(total)} in {path}, {size(free)} free"
    little = min(total, free) <= _DOCKER_SHM
    return judge("shared memory", observation, (little, "warning", advice))


def folder(name: str, path: Path | None, status: Status, advice: str) -> Trial:
    """Write a file into a folder (None: that of temporary files), or into its nearest parent.

    `status` and `advice` are for a folder that cannot be written.
    """
    yield Finding(name, status, f"nothing can be written into {path or 'any folder'}: ", advice)
    path, locks = path or Path(tempfile.gettempdir()), False
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    with tempfile.NamedTemporaryFile(dir=existing, prefix=".doctor.", buffering=0) as file:
        file.write(b"written by `doctor`")
        os.fsync(file)  # a full disk may not be noticed before
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locks = True
    free, runs = shutil.disk_usage(existing).free, name == RUNS
    full = "make room: a checkpoint with its optimiser is three times as large as the model"
    unlocked = "this file system has no locks: never use one run from two processes"
    yield judge(
        name,
        f"{path} can be written, {size(free)} free",
        (runs and free < LITTLE, "warning", full),
        (runs and not locks, "warning", unlocked),
    )
