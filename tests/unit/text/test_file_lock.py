"""Rounds of reading, changing and writing a file, one process at a time."""

import fcntl
import json
import logging
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from text import file_lock
from text.file_lock import locked

ROOT = Path(__file__).parents[3]
MERGE = """
import sys
from pathlib import Path
from run_files import results
identity = {"run": "r", "method": "OLSA", "corpus": "reviews", "seed": 0}
sys.stdin.readline()
for number in range(10):
    name = f"attack/t{sys.argv[2]}-{number}"
    metrics = {f"{name}/accuracy": 0.5}
    results.merge(Path(sys.argv[1]), name, identity=identity, metrics=metrics, seconds=1)
"""
HOLD = """
import sys, time
from pathlib import Path
from text.file_lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def start(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_no_figure_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    children = [start(MERGE, path, number) for number in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    content = json.loads(path.read_text())
    assert len(content["metrics"]) == len(content["seconds"]) == 40


def test_who_holds_it_is_named_and_a_kill_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.json"
    child = start(HOLD, path)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    monkeypatch.setattr(file_lock, "WARNING_SECONDS", 0.0)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(TimeoutError, match=f"process {child.pid} on "),
        locked(path, patience=0.1),
    ):
        pass
    assert f"waiting for {path}, which process {child.pid} on " in caplog.text
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with locked(path, patience=0.1):
        assert (tmp_path / ".a.json.lock").read_text().startswith(f"process {os.getpid()} on ")


def test_a_full_disk_has_no_room_for_the_name_of_the_holder(tmp_path: Path) -> None:
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, former[1]))
    try:
        with locked(tmp_path / "a.json"):  # the change itself says which file has no room
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def test_places_that_take_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="could not lock"), locked(tmp_path / "file" / "a.json"):
        pass

    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(OSError, match="has no locks"), locked(tmp_path / "a.json"):
        pass
