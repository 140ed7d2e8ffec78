"""Texts of the command line: words, files, streams."""

import argparse
import gzip
import io
import json
import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from app.cli.asked_texts import check_texts, chunks, read_file, read_stream, read_texts
from text.bounded_files import DataError

COLUMNS = ("text", "other")


def test_given_texts() -> None:
    assert check_texts(["a", "b"], [], pairs=False) == ["a", "b"]
    assert check_texts(["a", "b"], ["c", "d"], pairs=True) == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize(
    ("texts", "seconds", "pairs", "message"),
    [
        (["a"], ["b"], False, "for a model of single texts"),
        (["a", "b"], ["c"], True, "got 2 --text and 1 --text_pair"),
        (["a"], [], True, "got 1 --text and 0 --text_pair"),
        # As Python reads an argument that is not UTF-8.
        (["a \udcff"], [], False, r"got 'a \\udcff' for --text, expected text in UTF-8"),
    ],
)
def test_given_wrongly(texts: list[str], seconds: list[str], pairs: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_texts(texts, seconds, pairs=pairs)


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


@pytest.mark.parametrize(
    ("make", "numbers"), [(plain, (1, 4)), (packed, (1, 2)), (table, (2, 3)), (json_lines, (1, 2))]
)
def test_files(tmp_path: Path, make: Callable[[Path], Path], numbers: tuple[int, int]) -> None:
    queries = list(read_file(make(tmp_path), COLUMNS, pairs=False))
    assert queries == [("one", numbers[0]), ("two words", numbers[1])]


def test_no_line_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "texts.txt"
    path.touch()
    assert not list(read_file(path, COLUMNS, pairs=False))
    assert not list(read_stream(io.BytesIO(), pairs=False))
    assert [r.getMessage() for r in caplog.records] == [
        f"{path}: got no line, expected texts",
        "standard input: got no line, expected texts",
    ]


def test_blank_lines_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "texts.txt"
    for blank in (1, 2, 7):
        path.write_text("one\n" + " \n" * blank + "two\n")
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            queries = list(read_file(path, COLUMNS, pairs=False))
        assert [query.line for query in queries] == [1, blank + 2]
        (message,) = caplog.messages
        assert f"skipped {blank} blank line" in message
        assert "(2" in message


def test_empty_texts_are_refused(tmp_path: Path) -> None:
    """Also the JSON API refuses them."""
    for empty in ("", "  ", "\t"):
        with pytest.raises(ValueError, match="expected words"):
            check_texts(["fine", empty], [], pairs=False)
        with pytest.raises(ValueError, match="--text_pair"):
            check_texts(["fine"], [empty], pairs=True)
        (tmp_path / "rows.jsonl").write_text(
            json.dumps({"text": "fine"}) + "\n" + json.dumps({"text": empty}) + "\n"
        )
        with pytest.raises(DataError, match="line 2: empty text in column 'text'"):
            list(read_file(tmp_path / "rows.jsonl", COLUMNS, pairs=False))
    with pytest.raises(DataError, match="line 1 with 1 text"):
        list(read_stream(io.BytesIO(b"fine\t \n"), pairs=True))


def test_byte_order_mark_of_a_stream_is_not_text() -> None:
    stream = io.BytesIO(b"\xef\xbb\xbffine\r\n\xef\xbb\xbfbad\r\n")
    queries = list(read_stream(stream, pairs=False))
    assert not stream.closed  # another call of this process may read on
    assert [query.text for query in queries] == ["fine", "\ufeffbad"]  # as in a file


def test_pairs(tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text("a\tb\nc d\te\n")
    (tmp_path / "pairs.tsv").write_text("other\ttext\nb\ta\ne\tc d\n")
    for name in ("pairs.txt", "pairs.tsv"):
        queries = read_file(tmp_path / name, COLUMNS, pairs=True)
        assert [query.text for query in queries] == [("a", "b"), ("c d", "e")]


@pytest.mark.parametrize(
    ("content", "pairs", "message"),
    [
        (b"one\ntw\xffo\n", False, "line 2: broken encoding: byte 0xff at column 3"),
        (b"a\tb\n\nc\n", True, "line 3 with 1 text, expected the two of a pair"),
        (b"a\tb\tc\n", True, "line 1 with 3 texts"),
    ],
)
def test_wrong_lines(tmp_path: Path, content: bytes, pairs: bool, message: str) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_file(path, COLUMNS, pairs=pairs))
    with pytest.raises(DataError, match=f"standard input, {message}"):
        list(read_stream(io.BytesIO(content), pairs=pairs))


def test_utf_16_is_named_in_a_file_and_in_a_stream(tmp_path: Path) -> None:
    content = "fine\n".encode("utf-16")
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    message = ": got UTF-16, expected UTF-8: convert the file"
    with pytest.raises(DataError, match=f"{path}{message}"):
        list(read_file(path, COLUMNS, pairs=False))
    with pytest.raises(DataError, match=f"standard input{message}"):
        list(read_stream(io.BytesIO(content), pairs=False))


def test_wrong_tables(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("words\none\n")
    with pytest.raises(DataError, match="text"):
        list(read_file(tmp_path / "a.tsv", COLUMNS, pairs=False))
    (tmp_path / "b.jsonl").write_text('{"text": "fine"}\n{"text": 3}\n')
    with pytest.raises(DataError, match="line 2: "):
        list(read_file(tmp_path / "b.jsonl", COLUMNS, pairs=False))
    (tmp_path / "c.csv").write_text("text,label\n")
    with pytest.raises(DataError, match=r"c\.csv: got no rows after the names of the columns, exp"):
        list(read_file(tmp_path / "c.csv", COLUMNS, pairs=False))
    with pytest.raises(DataError, match="not found"):
        list(read_file(tmp_path / "nowhere.txt", COLUMNS, pairs=False))


def test_a_missing_file_is_named_with_its_option(tmp_path: Path) -> None:
    args = argparse.Namespace(file=tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=r"nowhere\.txt, not found, expected a table, .* --file$"):
        read_texts(args, pairs=False)


def test_chunks_read_no_further_than_they_must() -> None:
    numbers = count()
    found = chunks((str(number) for number in numbers), 3)
    assert next(found) == ["0", "1", "2"]
    assert next(numbers) == 3
    assert list(chunks([], 3)) == []
    assert list(chunks(["a", "b", "c"], 2)) == [["a", "b"], ["c"]]
