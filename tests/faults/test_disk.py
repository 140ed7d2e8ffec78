"""No room, no rights: one error, nothing lost, and the same command goes on when there is room."""

import errno
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import FIT
from tests.faults.injection import Fault, KillAtHook, SmallFiles, Unwritable
from tests.faults.program import Machine, Outcome
from tests.faults.settings import ALWAYS
from tests.faults.state import compare_runs, damage, left_over, step

FULL = "No space left on device"
FAULTS: dict[str, tuple[Fault, str]] = {
    "the run begins": (Unwritable("config.yaml"), FULL),
    "the first checkpoint": (Unwritable(".best.ckpt"), FULL),
    "a later checkpoint": (Unwritable(".last.ckpt", survived=1), FULL),
    "events": (Unwritable("tfevents", survived=10), FULL),
    "results": (Unwritable("results.json"), FULL),
    "a read-only file system": (Unwritable(".lock", error=errno.EROFS), "Read-only file system"),
    "a file grows": (SmallFiles(20_000), "File too large"),
}
QUICK = {"a later checkpoint", "events"}


def one_error(outcome: Outcome, says: str) -> None:
    assert outcome.status == 1, outcome.err
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert re.search(r"could not write (/|runs/)", line)
    assert says in line
    assert "give the same command again" in line
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAULTS],
)
def test_no_room(machine: Machine, whole: Path, name: str) -> None:
    fault, says = FAULTS[name]
    one_error(machine.run(FIT, "--run=a", faults=[fault]), says)
    run = machine.where / "runs" / "a"
    assert damage(run) == []
    assert left_over(run) == []
    outcome = machine.run(FIT, "--run=a")
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, run) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte, mounted as `runs`."""
    disk = tmp_path / "runs"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no right to mount a small disk: {error}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("free", [8 * 1024, 20 * 1024])
def test_a_disk_that_was_full_before(
    machine: Machine, small_disk: Path, whole: Path, free: int
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - free))
    one_error(machine.run(FIT, "--run=a"), FULL)
    ballast.unlink()
    outcome = machine.run(FIT, "--run=a")
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, small_disk / "a") == []


def test_a_disk_that_is_really_full(machine: Machine, small_disk: Path, whole: Path) -> None:
    fault = KillAtHook("on_train_batch_start", calls=5)
    assert machine.run(FIT, "--run=a", ALWAYS, faults=[fault]).status == -9
    ballast = small_disk / "ballast"
    # Room for half a checkpoint: the kernel takes some bytes and refuses the next.
    half = (small_disk / "a" / "checkpoints" / "last.ckpt").stat().st_size // 2
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - half))
    before = step(small_disk / "a")
    one_error(machine.run(FIT, "--run=a", ALWAYS), FULL)
    assert damage(small_disk / "a") == []
    assert step(small_disk / "a") >= before
    assert left_over(small_disk / "a") == []
    ballast.unlink()
    outcome = machine.run(FIT, "--run=a")
    assert outcome.status == 0, outcome.err
    assert compare_runs(whole, small_disk / "a") == []
