import json
from pathlib import Path

import pytest

from app import atomic


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    atomic.write_text(path, "one")
    atomic.write_text(path, "two ü")
    assert path.read_text(encoding="utf-8") == "two ü"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_lines(tmp_path: Path) -> None:
    records: list[dict[str, int | None]] = [{"a": 1}, {"a": None}]
    atomic.write_lines(tmp_path / "f", records)
    lines = (tmp_path / "f").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    message = "in the middle"

    def write() -> None:
        with atomic.replacing(path) as stream:
            stream.write(b"half")
            raise KeyError(message)

    with pytest.raises(KeyError, match=message):
        write()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_reader_never_sees_a_half(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with atomic.replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"could not write .*nothing was written"):
        atomic.write_text(tmp_path / "file" / "below", "x")
