import errno
import json
import os
from pathlib import Path

import pytest

from run_files import atomic


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
    another = f"{tmp_path}/file is a file, expected a folder; nothing was written; give another"
    for below in ("below", "deep/below"):
        with pytest.raises(OSError, match=f"could not write .*below: {another} path$"):
            atomic.write_text(tmp_path / "file" / below, "x")
    with pytest.raises(OSError, match=r": it is a folder; what was there .*; give another path$"):
        atomic.write_text(tmp_path, "x")
    with (
        pytest.raises(OSError, match=r"could not write .*/folder: .*nothing was written"),
        atomic.replacing_folder(tmp_path / "file" / "folder"),
    ):
        pass


class SerialisingError(Exception):
    """As safetensors has one of its own."""


@pytest.mark.parametrize("kind", [OSError, SerialisingError])
def test_a_folder_without_room_is_named(tmp_path: Path, kind: type[Exception]) -> None:
    with (
        pytest.raises(OSError, match=f"write {tmp_path}/a: No space left on device; nothing"),
        atomic.replacing_folder(tmp_path / "a"),
    ):
        raise kind("I/O error: No space left on device (os error 28)")
    with pytest.raises(FileNotFoundError, match="read"), atomic.replacing_folder(tmp_path / "a"):
        raise FileNotFoundError("read")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_kept_if_it_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, replace = tmp_path / "a", Path.replace
    with atomic.replacing_folder(folder) as fresh:
        (fresh / "file").write_text("former")

    def stop(self: Path, target: Path) -> Path:
        if self.name == ".a.new":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt), atomic.replacing_folder(folder):
        pass
    assert (folder / "file").read_text() == "former"
    assert list(tmp_path.iterdir()) == [folder]


def test_files_of_a_folder_reach_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(os.fstat(number).st_ino))
    with atomic.replacing_folder(tmp_path / "a") as fresh:
        (fresh / "inner").mkdir()
        for name in ("b", "inner/c"):
            (fresh / name).write_text(name)
        assert not flushed
    files = [tmp_path / "a" / name for name in ("b", "inner/c")]
    assert sorted(flushed) == sorted(file.stat().st_ino for file in files)


def test_keep(tmp_path: Path) -> None:
    new, old = tmp_path / "last", tmp_path / "previous"
    atomic.keep(new, old)
    assert not list(tmp_path.iterdir())
    for content in ("1", "2", "3"):
        atomic.keep(new, old)
        atomic.write_text(new, content)
    assert (old.read_text(), new.read_text()) == ("2", "3")
    assert len(list(tmp_path.iterdir())) == 2


def test_keep_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    new, old = tmp_path / "last", tmp_path / "previous"
    new.write_text("1")
    atomic.keep(new, old)
    assert old.read_text() == "1"
    assert not new.exists()


def test_sweep(tmp_path: Path) -> None:
    part, young, whole = (tmp_path / name for name in (".a.1.part", ".b.2.part", "a"))
    for path in (part, young, whole):
        path.write_text("")
    os.utime(part, (0, 0))
    atomic.sweep(tmp_path, older_than=600)
    assert sorted(tmp_path.iterdir()) == sorted([young, whole])
    atomic.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [whole]
    atomic.sweep(tmp_path / "absent")
