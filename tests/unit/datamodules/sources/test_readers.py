import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.sources.readers import DataError, find_file, read_rows

Rows = list[tuple[int, dict[str, Any] | str]]


def read(path: Path, *columns: str, quoted: bool | None = None) -> Rows:
    return [
        (row.line, dict(row.values) if row.problem is None else row.problem)
        for row in read_rows(path, columns, quoted=quoted)
    ]


def write(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)
    return path


@pytest.mark.parametrize("ending", ["tsv", "tsv.gz"])
def test_tsv_takes_fields_as_they_stand(tmp_path: Path, ending: str) -> None:
    content = b'text\tn\tlabel\n"a "quote\t1\tx\n  b \t2\ty\n'
    path = write(tmp_path / f"a.{ending}", content)
    assert read(path, "label", "text") == [
        (2, {"label": "x", "text": '"a "quote'}),
        (3, {"label": "y", "text": "  b "}),
    ]


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbftext,label\r\na,1\r\n\r\nb,0"
    expected: Rows = [(2, {"text": "a", "label": "1"}), (4, {"text": "b", "label": "0"})]
    for quoted in (True, False):
        assert read(write(tmp_path / "a.csv", content), "text", "label", quoted=quoted) == expected
    lines = b'\xef\xbb\xbf{"text": "a"}\r\n\r\n{"text": "b"}\r\n'
    assert read(write(tmp_path / "a.jsonl", lines), "text") == [
        (1, {"text": "a"}),
        (3, {"text": "b"}),
    ]


def test_csv_records_over_several_lines_keep_their_line_numbers(tmp_path: Path) -> None:
    content = b'text,label\n"one\ntwo, ""three""",1\nfour,2\n"five\nsix"x,3\nseven,4\n'
    assert read(write(tmp_path / "a.csv", content), "text", "label") == [
        (2, {"text": 'one\ntwo, "three"', "label": "1"}),
        (4, {"text": "four", "label": "2"}),
        (5, "',' expected after '\"' (the record ends in line 6)"),
        (7, {"text": "seven", "label": "4"}),
    ]


def test_a_quote_that_is_never_closed_says_how_far_it_reached(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'text,label\na,1\n"b,1\nc,1\n')
    rows = read(path, "text", "label")
    assert rows[1] == (3, "unexpected end of data (the record ends in line 4)")


def test_a_long_quoted_text_is_read(tmp_path: Path) -> None:
    text = "x" * 200_000
    path = write(tmp_path / "a.csv", f'text,label\n"{text}",1\n'.encode())
    assert read(path, "text") == [(2, {"text": text})]


def test_quoted_tsv_if_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b'text\tlabel\n"a\tb"\t1\n')
    assert read(path, "text", quoted=True) == [(2, {"text": "a\tb"})]
    assert read(path, "text") == [(2, "got 3 fields, expected 2")]


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl"])
def test_broken_encoding_is_told_by_line_and_reading_goes_on(tmp_path: Path, ending: str) -> None:
    content = {
        "tsv": b"text\tlabel\ncaf\xe9\t1\na\x00b\t1\nok\t1\n",
        "csv": b"text,label\ncaf\xe9,1\na\x00b,1\nok,1\n",
        "jsonl": b'{"text": "x"}\n{"text": "caf\xe9"}\n{"text": "a\x00b"}\n{"text": "ok"}\n',
    }[ending]
    rows = read(write(tmp_path / f"a.{ending}", content), "text")
    latin, nul, ok = rows[-3:]
    assert latin[0] == 2
    assert "byte 0xe9" in str(latin[1])
    assert nul == (3, "broken encoding: a NUL character")
    assert ok == (4, {"text": "ok"})


def test_bad_json_lines(tmp_path: Path) -> None:
    content = b'{"text": "a", "label": 1}\n{"text": \n[1]\n{"words": "a"}\n' + b"[" * 100_000
    rows = read(write(tmp_path / "a.jsonl", content), "text")
    assert rows[0] == (1, {"text": "a"})
    assert "not a JSON value" in str(rows[1][1])
    assert rows[2] == (3, "got a JSON list, expected an object")
    assert rows[3] == (4, "got columns ['words'], expected ['text'] among them")
    assert "not a JSON value" in str(rows[4][1])


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet"])
def test_a_missing_column_lists_the_columns_there_are(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        parquet(path, {"words": ["a"], "label": [1]})
    else:
        write(path, b"words,label\na,1\n".replace(b",", b"\t" if ending == "tsv" else b","))
    message = r"a\.\w+.*got columns \['words', 'label'\], expected \['text'\] among them"
    with pytest.raises(DataError, match=message):
        read(path, "text", "label")


def parquet(path: Path, columns: dict[str, list[Any]]) -> None:
    import pyarrow
    from pyarrow import parquet as library

    library.write_table(pyarrow.table(columns), path)


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet(path, {"id": [7, 8], "text": ["a", None], "label": [1, 0]})
    assert read(path, "text", "label") == [
        (1, {"text": "a", "label": 1}),
        (2, {"text": None, "label": 0}),
    ]
    write(path, b"no parquet at all")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read(path, "text")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"", "empty file"),
        ("a.csv", b"", "empty file"),
        ("a.tsv", "text\n".encode("utf-16"), "UTF-16"),
        ("a.tsv", b"te\xffxt\n", "line 1: broken encoding"),
        ("a.csv", b"te\xffxt\n", "line 1: broken encoding"),
        ("a.tsv", b"text\ttext\n", "among them, once"),
        ("a.txt", b"text\n", "expected a file ending in"),
        ("a.parquet.gz", b"", "expected a file ending in"),
    ],
)
def test_files_that_are_broken_as_a_whole(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / name, content), "text")


def test_broken_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    packed = gzip.compress(b"text\n" + bytes(range(48, 58)) * 50_000)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"a\.tsv\.gz.*broken or cut off"):
        read(path, "text")
    path.write_bytes(b"text\nplain\n")
    with pytest.raises(DataError, match="broken or cut off"):
        read(path, "text")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found"):
        read(tmp_path / "a.tsv", "text")


def test_find_file(tmp_path: Path) -> None:
    assert find_file(tmp_path, "train") is None
    path = write(tmp_path / "train.csv.gz", b"")
    assert find_file(tmp_path, "train") == path
    write(tmp_path / "train.tsv", b"")
    with pytest.raises(DataError, match="expected one of them"):
        find_file(tmp_path, "train")


field = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1)


@pytest.mark.long
@given(st.lists(st.tuples(field, field), min_size=1, max_size=5))
def test_csv_written_by_the_library_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    import csv

    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([("text", "label"), *rows])
    line, expected = 2, []
    for text, label in rows:
        expected.append((line, {"text": text, "label": label}))
        line += 1 + text.count("\n") + label.count("\n")
    assert read(path, "text", "label") == expected
