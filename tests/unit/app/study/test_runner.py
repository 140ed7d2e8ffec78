"""The threads of a run that a study resumes, and its lock."""

import fcntl
from pathlib import Path
from typing import Any

import pytest

from app.study import runner
from app.study.cells import StudyContext
from app.study.runner import Share, Stop, Work
from lit_modules import CheckpointError
from run_files.run_directory import RunDirectory
from training import arithmetic
from training.arithmetic import Arithmetic, recorded_threads

STATE = {"ranks": [{"threads": 3, "precision": "32-true"}]}


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Callbacks in the checkpoints of a run, by file; a file that is not named is damaged."""
    files: dict[str, Any] = {"last.ckpt": {Arithmetic.__name__: STATE}}

    def read(path: Path, *, lazily: bool) -> dict[str, Any]:
        assert lazily
        if path.name not in files:
            raise CheckpointError(path.name)
        return {"callbacks": files[path.name]}

    monkeypatch.setattr(arithmetic, "read_checkpoint", read)
    return files


@pytest.fixture
def run(tmp_path: Path, checkpoints: dict[str, Any]) -> RunDirectory:
    """A run that was begun with three threads."""
    found = RunDirectory(tmp_path / "a")
    found.path.mkdir()
    found.config_path.touch()
    return found


@pytest.mark.parametrize("share", [1, 2, 4])
def test_a_run_keeps_its_threads_whatever_its_share_is(run: RunDirectory, share: int) -> None:
    kept, note = runner._as_begun(run, Share(threads=share, devices="1"))
    assert kept == Share(threads=3, devices="1")
    assert kept.environment()["OMP_NUM_THREADS"] == "3"
    assert note == " (3 threads, as it was begun)"


def test_the_same_share_is_no_news(run: RunDirectory) -> None:
    assert runner._as_begun(run, Share(threads=3)) == (Share(threads=3), "")


def test_a_run_that_is_not_begun_takes_its_share(tmp_path: Path) -> None:
    share = Share(threads=2)
    assert runner._as_begun(RunDirectory(tmp_path / "b"), share) == (share, "")


def test_damage_is_left_to_who_trains(run: RunDirectory, checkpoints: dict[str, Any]) -> None:
    checkpoints["previous.ckpt"] = checkpoints.pop("last.ckpt")
    assert recorded_threads(run) == 3
    checkpoints["previous.ckpt"] = {}  # of an older version
    assert recorded_threads(run) is None
    checkpoints.clear()
    assert recorded_threads(run) is None


def test_a_cell_of_another_command_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, waits = tmp_path / "locks" / "a", list[str]()
    lock.parent.mkdir()
    with lock.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        looks = iter([False, False, True])

        def look(_: float) -> None:
            if next(looks):
                fcntl.flock(other, fcntl.LOCK_UN)

        monkeypatch.setattr("time.sleep", look)
        with runner._alone(lock, Stop(), lambda: waits.append("told")) as mine:
            assert mine
    assert waits == ["told"]


def test_a_full_disk_has_no_room_for_the_log() -> None:
    log, work = Path("/dev/full"), Work(context=StudyContext(study="a"), settings={})
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        runner._run([], log, work, Share(threads=1), Stop())


def test_an_error_of_an_earlier_start_is_not_the_present_one(tmp_path: Path) -> None:
    log = tmp_path / "a.fit.log"
    log.write_text("$ steadfast fit\nerror: no room\n$ steadfast fit\nstopped by SIGTERM: saved\n")
    assert runner._last_line(log, 143) == "stopped by SIGTERM: saved"
    log.write_text("$ steadfast fit\nerror: no room\n$ steadfast fit\n")
    assert runner._last_line(log, 1) == "exit status 1"
