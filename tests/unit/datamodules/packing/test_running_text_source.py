"""Files of running text, the good and the bad."""

import gzip
import json
import os
from pathlib import Path
from typing import Literal

import pytest

from datamodules import DataError
from datamodules.packing.running_text_source import FileTexts, find_files
from tests.security.payloads import gzip_bomb
from text.bounded_files import LINE_LIMIT


def texts(path: Path, on_bad_row: Literal["stop", "skip"] = "stop") -> list[str]:
    return list(FileTexts([path], "text", on_bad_row=on_bad_row).texts())


def test_lines_of_text_files(tmp_path: Path) -> None:
    content = "\ufeffOne line,\r\n\n  \nanother\u2028one\t.\nand the last".encode()
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(content))
    expected = ["One line,", "another\u2028one\t.", "and the last"]
    assert texts(tmp_path / "a.txt") == texts(tmp_path / "b.txt.gz") == expected


def test_columns_of_other_files(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    (tmp_path / "a.tsv").write_text("id\ttext\n1\tx y\n2\t\n")
    (tmp_path / "a.csv").write_text('text\n"x\ny"\n')
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "x"}\n{"text": " "}\n'))
    parquet.write_table(pyarrow.table({"text": ["x", "y"]}), tmp_path / "a.parquet")
    columns = [texts(tmp_path / f"a.{end}") for end in ("tsv", "csv", "jsonl.gz", "parquet")]
    assert columns == [["x y"], ["x\ny"], ["x"], ["x", "y"]]


BAD: dict[str, tuple[bytes, str]] = {
    "nul.txt": (b"a\nb\0c\n", r"nul\.txt, line 2: got binary data"),
    "program.txt": (b"\x7fELF\x02\x01\x01\0\0", "line 1: got binary data"),
    "image.txt": (b"\x89PNG\r\n\x1a\n\0", "line 1: got binary or wrongly encoded data"),
    "latin.txt": (b"a\nb\ncaf\xe9\n", "line 3: got binary or .*byte 0xe9 at column 4 is not UTF-8"),
    "utf16.txt": ("abc".encode("utf-16"), "got UTF-16"),
    "empty.txt": (b"", "got a file without any text"),
    "blank.txt": (b"\n \n\t\n", "got a file without any text"),
    "gzipped.txt.gz": (b"no archive", "the gzip file is broken"),
    "cut.txt.gz": (gzip.compress(b"some text\n" * 50)[:-12], "the gzip file is broken or cut off"),
    "empty.txt.gz": (gzip.compress(b""), "got a file without any text"),
    "long.txt": (b"a" * (LINE_LIMIT + 1), "without a line end"),
    "number.jsonl": (b'{"text": 3}\n', "line 1: column 'text' holds int, expected text"),
    "column.jsonl": (b'{"other": "a"}\n', "line 1: got columns"),
    "column.tsv": (b"other\na\n", "expected .'text'. among them"),
    "empty.tsv": (b"text\n", "got a file without any text"),
    "binary.parquet": (b"\0" * 100, "cannot be read as Parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_text(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        texts(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_bad_lines_may_be_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [b"good", *[b"b\0d"] * 7, b"better", b"caf\xe9"]
    (tmp_path / "a.txt").write_bytes(b"\n".join(rows))
    assert texts(tmp_path / "a.txt", "skip") == ["good", "better"]
    assert "line 2 skipped: got binary" in caplog.text
    assert "line 7" not in caplog.text
    assert "8 bad lines or rows skipped" in caplog.text


@pytest.mark.long
def test_bombs_pipes_and_folders(tmp_path: Path) -> None:
    gzip_bomb(tmp_path / "bomb.txt.gz", b"a\n", b"\n" * 2**20, 200)
    with pytest.raises(DataError, match="memory from a file of"):
        texts(tmp_path / "bomb.txt.gz")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "broken.txt").symlink_to("nowhere")
    for name, kind in (("pipe", "a named pipe"), ("folder", "a folder"), ("broken", "a broken")):
        with pytest.raises(DataError, match=kind):
            texts(tmp_path / f"{name}.txt")


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.gz", "a.txt.zip", "a.parquet.gz"])
def test_other_endings(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a")
    if name == "a.parquet.gz":
        with pytest.raises(DataError, match="but for Parquet"):
            texts(tmp_path / name)
        return
    with pytest.raises(DataError, match=r"expected a file ending in \.txt, \.jsonl"):
        FileTexts([tmp_path / name], "text", on_bad_row="stop")


def test_patterns(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "deep/c.txt", "deep/deeper/d.txt", "e.tsv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(*patterns: str) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in find_files(tmp_path, patterns)]

    assert found("*.txt") == ["a.txt", "b.txt"]
    assert found("b.txt", "*.txt") == ["b.txt", "a.txt"]
    assert found("**/*.txt") == ["a.txt", "b.txt", "deep/c.txt", "deep/deeper/d.txt"]
    assert found(str(tmp_path / "deep" / "*.txt")) == ["deep/c.txt"]


@pytest.mark.parametrize("pattern", ["*.md", "absent.txt", "", "a**b", "/nowhere/*.txt"])
def test_patterns_that_name_no_file(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(DataError, match=r"files pattern .* names no file") as caught:
        find_files(tmp_path, [pattern])
    assert repr(pattern) in str(caught.value)


def test_keys_tell_texts_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a")
    source = FileTexts([path], "text", on_bad_row="stop")
    before = source.key(), source.names()
    os.utime(path, ns=(5, 5))
    assert (source.key() == before[0], source.names() == before[1]) == (False, True)
    path.write_text("ab")
    assert source.names() != before[1]
    json.dumps(before)
    other = FileTexts([path], "body", on_bad_row="stop")
    assert other.names() != source.names()
