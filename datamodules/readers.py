"""Rows of TSV, CSV, JSON Lines and Parquet files, gzipped or not, each with its line number."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

ENDINGS = (".jsonl", ".tsv", ".csv", ".parquet")
"""What a corpus file may be, each but the last also with `.gz` behind it; in the order tried."""


class DataError(ValueError):
    """Data that cannot be used; the message names the file, and the line where there is one."""


class Row(NamedTuple):
    """One row as it was read.

    Attributes:
        line: the line of the file where it begins (Parquet: the row), counted from 1.
        values: the columns asked for.
        problem: what is wrong with it; then `values` is empty.
    """

    line: int
    values: Mapping[str, Any]
    problem: str | None = None


def find_file(folder: Path, stem: str) -> Path | None:
    """The file `folder/stem` with one of the known endings, if there is one.

    Raises:
        DataError: there are several, and nobody has said which one is meant.
    """
    names = [stem + ending + pack for ending in ENDINGS for pack in ("", ".gz")]
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) > 1:
        msg = f"got {' and '.join(map(str, found))}, expected one of them: remove the others"
        raise DataError(msg)
    return found[0] if found else None


def read_rows(
    path: str | Path, columns: Sequence[str], *, quoted: bool | None = None
) -> Iterator[Row]:
    """Read some columns of a file, its format and compression told by its ending.

    A row that cannot be read comes with its `problem`, and reading goes on after it.

    Args:
        path: a `.tsv`, `.csv`, `.jsonl` or `.parquet` file, the first three also with `.gz`.
        columns: names of the columns, as in the header line, the JSON objects or the schema.
        quoted: whether fields may stand in double quotes, and then hold delimiters and line ends;
            None: in CSV they may, in TSV a quote is a character like any other.

    Raises:
        DataError: no such file or format, no such column, or a file that is broken as a whole.
    """
    path = Path(path)
    packed = path.suffix == ".gz"
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    if ending not in ENDINGS or (packed and ending == ".parquet"):
        msg = f"got {path}, expected a file ending in {', '.join(ENDINGS)} (.gz but for Parquet)"
        raise DataError(msg)
    if not path.is_file():
        msg = f"got {path}, which is no file, expected a {ending[1:]} file"
        raise DataError(msg)
    if ending == ".parquet":
        yield from _parquet(path, columns)
        return
    line = 0
    try:
        with cast(BinaryIO, gzip.open(path) if packed else path.open("rb")) as file:
            if ending == ".jsonl":
                rows = _json_lines(path, file, columns)
            elif quoted or (quoted is None and ending == ".csv"):
                rows = _quoted(path, file, columns, "\t" if ending == ".tsv" else ",")
            else:
                rows = _plain(path, file, columns, "\t" if ending == ".tsv" else ",")
            for row in rows:
                line = row.line
                yield row
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        msg = f"{path}, after line {line}: the gzip file is broken or cut off ({error})"
        raise DataError(msg) from error


def _decode(raw: bytes) -> str:
    """One line without its end; the message of a failure is fit for the user."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte 0x{raw[error.start]:02x} at column {error.start + 1}"
        msg = f"broken encoding: {place} is not UTF-8"
        raise ValueError(msg) from error
    if "\0" in text:
        msg = "broken encoding: a NUL character"
        raise ValueError(msg)
    return text


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without line end and byte order mark."""
    for number, raw in enumerate(file, start=1):
        if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            msg = f"{path}: got UTF-16, expected UTF-8: convert the file"
            raise DataError(msg)
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def _places(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Where the columns stand in the header."""
    missing = [column for column in columns if header.count(column) != 1]
    if missing:
        msg = f"{path}, line 1: got columns {list(header)}, expected {missing} among them, once"
        raise DataError(msg)
    return [header.index(column) for column in columns]


def _plain(path: Path, file: BinaryIO, columns: Sequence[str], delimiter: str) -> Iterator[Row]:
    lines = _lines(path, file)
    first = next(lines, None)
    if first is None:
        msg = f"{path}: got an empty file, expected a header line with the columns {list(columns)}"
        raise DataError(msg)
    try:
        header = _decode(first[1]).split(delimiter)
    except ValueError as error:
        msg = f"{path}, line 1: {error}"
        raise DataError(msg) from error
    places = _places(path, header, columns)
    for number, raw in lines:
        if not raw:
            continue
        try:
            fields = _decode(raw).split(delimiter)
        except ValueError as error:
            yield Row(number, {}, str(error))
            continue
        if len(fields) == len(header):
            yield Row(number, {c: fields[p] for c, p in zip(columns, places, strict=True)})
        else:
            yield Row(number, {}, f"got {len(fields)} fields, expected {len(header)}")


def _quoted(path: Path, file: BinaryIO, columns: Sequence[str], delimiter: str) -> Iterator[Row]:
    # Broken bytes pass the parser as lone surrogates, so that they can be told by record.
    text = (raw.decode("utf-8", "surrogateescape") + "\n" for _, raw in _lines(path, file))
    parser = csv.reader(text, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    places: list[int] = []
    while True:
        start = parser.line_num + 1
        try:
            fields = next(parser, None)
            if fields is None:
                break
            if not fields:
                continue
            for field in fields:
                _decode(field.encode("utf-8", "surrogateescape"))
            if header is not None and len(fields) != len(header):
                msg = f"got {len(fields)} fields, expected {len(header)}"
                raise ValueError(msg)
        except (csv.Error, ValueError) as error:
            end = f" (the record ends in line {parser.line_num})" if parser.line_num > start else ""
            if header is None:
                msg = f"{path}, line {start}: {error}"
                raise DataError(msg) from error
            yield Row(start, {}, f"{error}{end}")
            continue
        if header is None:
            header, places = fields, _places(path, fields, columns)
        else:
            yield Row(start, {c: fields[p] for c, p in zip(columns, places, strict=True)})
    if header is None:
        msg = f"{path}: got an empty file, expected a header line with the columns {list(columns)}"
        raise DataError(msg)


def _json_lines(path: Path, file: BinaryIO, columns: Sequence[str]) -> Iterator[Row]:
    for number, raw in _lines(path, file):
        if not raw.strip():
            continue
        try:
            value = json.loads(_decode(raw))
        except (ValueError, RecursionError) as error:
            broken = "broken encoding" in str(error)
            yield Row(number, {}, str(error) if broken else f"not a JSON value ({error})")
            continue
        if not isinstance(value, dict):
            yield Row(number, {}, f"got a JSON {type(value).__name__}, expected an object")
        elif missing := [column for column in columns if column not in value]:
            yield Row(number, {}, f"got columns {list(value)}, expected {missing} among them")
        else:
            yield Row(number, {column: value[column] for column in columns})


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            missing = [column for column in columns if column not in names]
            if missing:
                msg = f"{path}: got columns {names}, expected {missing} among them"
                raise DataError(msg)
            line = 0
            for batch in file.iter_batches(columns=list(columns)):
                for values in batch.to_pylist():
                    line += 1
                    yield Row(line, values)
    except (ArrowException, OSError) as error:
        msg = f"{path}: got a file that cannot be read as Parquet ({error})"
        raise DataError(msg) from error
