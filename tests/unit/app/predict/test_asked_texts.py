"""Texts of the command line: words, files, streams."""

import gzip
import io
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from app.predict.asked_texts import chunks, given, of_file, of_stream
from datamodules.sources.files import DataError

COLUMNS = ("text", "other")


def test_given_texts() -> None:
    assert given(["a", "b"], [], pairs=False) == ["a", "b"]
    assert given(["a", "b"], ["c", "d"], pairs=True) == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize(
    ("texts", "seconds", "pairs", "message"),
    [
        (["a"], ["b"], False, "for a model of single texts"),
        (["a", "b"], ["c"], True, "got 2 --text and 1 --text_pair"),
        (["a"], [], True, "got 1 --text and 0 --text_pair"),
    ],
)
def test_given_wrongly(texts: list[str], seconds: list[str], pairs: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        given(texts, seconds, pairs=pairs)


def plain(path: Path) -> Path:
    path = path / "texts.txt"
    path.write_text("\ufeffone\n\n  \ntwo words\r\n", encoding="utf-8")
    return path


def packed(path: Path) -> Path:
    path = path / "texts.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo words"))
    return path


def table(path: Path) -> Path:
    path = path / "texts.csv"
    path.write_text('id,text\n1,one\n2,"two words"\n')
    return path


def json_lines(path: Path) -> Path:
    path = path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("one", "two words")))
    return path


@pytest.mark.parametrize("make", [plain, packed, table, json_lines])
def test_files(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    assert list(of_file(make(tmp_path), COLUMNS, pairs=False)) == ["one", "two words"]


def test_pairs(tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text("a\tb\nc d\te\n")
    (tmp_path / "pairs.tsv").write_text("other\ttext\nb\ta\ne\tc d\n")
    for name in ("pairs.txt", "pairs.tsv"):
        assert list(of_file(tmp_path / name, COLUMNS, pairs=True)) == [("a", "b"), ("c d", "e")]


@pytest.mark.parametrize(
    ("content", "pairs", "message"),
    [
        (b"one\ntw\xffo\n", False, "line 2: broken encoding: byte 0xff at column 3"),
        (b"a\tb\n\nc\n", True, "line 3 with 1 texts, expected the two of a pair"),
        (b"a\tb\tc\n", True, "line 1 with 3 texts"),
    ],
)
def test_wrong_lines(tmp_path: Path, content: bytes, pairs: bool, message: str) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(of_file(path, COLUMNS, pairs=pairs))
    with pytest.raises(DataError, match=f"standard input, {message}"):
        list(of_stream(io.BytesIO(content), pairs=pairs))


def test_wrong_tables(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("words\none\n")
    with pytest.raises(DataError, match="text"):
        list(of_file(tmp_path / "a.tsv", COLUMNS, pairs=False))
    (tmp_path / "b.jsonl").write_text('{"text": "fine"}\n{"text": 3}\n')
    with pytest.raises(DataError, match="line 2: "):
        list(of_file(tmp_path / "b.jsonl", COLUMNS, pairs=False))
    with pytest.raises(DataError, match="absent"):
        list(of_file(tmp_path / "nowhere.txt", COLUMNS, pairs=False))


def test_chunks_read_no_further_than_they_must() -> None:
    numbers = count()
    found = chunks((str(number) for number in numbers), 3)
    assert next(found) == ["0", "1", "2"]
    assert next(numbers) == 3
    assert list(chunks([], 3)) == []
    assert list(chunks(["a", "b", "c"], 2)) == [["a", "b"], ["c"]]
