"""Rows of TSV, CSV, JSON Lines and Parquet files, gzipped or not, each with its line number."""

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from datamodules.sources.rows import Row, check_row, decode, look_up
from datamodules.sources.structured import read_entries
from datamodules.sources.table_shape import ENDINGS, TableShape, usual_shape
from text.bounded_files import (
    ROW,
    DataError,
    allowance,
    brief,
    kind_of,
    lines,
    opened,
    refuse,
    too_large,
)
from text.subjects import flat

__all__ = ["ENDINGS", "DataError", "Row", "decode", "find_file", "read_rows"]

NESTED_LIMIT = 2**17
"""Opening brackets of a line of JSON, including those in its texts."""


def find_file(folder: Path, stem: str, endings: Sequence[str] = ENDINGS) -> Path | None:
    """Return the file `folder/stem` with one of the endings, or one and `.gz`; None without one.

    Raises:
        DataError: several files match, or it is not a regular file.
    """
    # Endings are tried in order, but a second match is an error, not ignored.
    names = [stem + ending + pack for ending in endings for pack in ("", ".gz")]
    kinds = {folder / name: kind_of(folder / name) for name in names}
    matches = [path for path, kind in kinds.items() if kind is not None]
    for path in matches:
        if kinds[path] != "file":
            # Not skipped: the caller would silently read the hub's corpus instead.
            raise refuse(path, str(kinds[path]))
    if len(matches) > 1:
        msg = f"got {' and '.join(map(str, matches))}, expected one of them: remove the others"
        raise DataError(msg)
    return matches[0] if matches else None


def read_rows(
    path: str | Path,
    columns: Sequence[str],
    *,
    optional: Collection[str] = (),
    quoted: bool | None = None,
    shape: TableShape | None = None,
) -> Iterator[Row]:
    """Read some columns of a file; its ending determines its compression.

    A row that cannot be read is yielded with its `problem`, and reading continues after it. The
    names of columns are those in the header line, the JSON objects or the schema; in JSON,
    `meta.label` is also the value `label` of the object `meta`. `optional` ones among them may be
    missing in the file, and then in the rows. `quoted` and the default of `shape` are those of
    `usual_shape`.

    Raises:
        DataError: a missing file or column, an unknown format, or a file that is broken.
    """
    path = Path(path)
    selection = _Columns(columns, optional)
    shape = usual_shape(path, quoted) if shape is None else shape
    if shape.format == "JSON array":
        for row in read_entries(path, shape.encoding):
            yield (
                row if row.problem else _select(row.line, row.values["value"], selection, row.entry)
            )
        return
    with opened(path) as file:
        if shape.format == "Parquet":
            yield from _parquet(path, file, selection)
            return
        numbered = lines(path, file, packed=path.suffix == ".gz", encoding=shape.encoding)
        if shape.format == "JSON lines":
            yield from _json_lines(numbered, selection)
        elif shape.quoted:
            yield from _quoted(path, numbered, selection, shape.separator)
        else:
            yield from _plain(path, numbered, selection, shape.separator)


class _Columns(NamedTuple):
    """The requested columns, and those among them that may be absent."""

    names: Sequence[str]
    optional: Collection[str]

    def within(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the columns to read, and those of them that do not occur exactly once."""
        selected = [name for name in self.names if name in names or name not in self.optional]
        return selected, [name for name in selected if names.count(name) != 1]


def _indices(path: Path, header: Sequence[str], columns: _Columns) -> dict[str, int]:
    """Return the indices of the columns in the header."""
    selected, missing = columns.within(header)
    if missing:
        got = brief(list(header))
        msg = f"{path}, line 1: got columns {got}, expected {missing} among them, once"
        raise DataError(msg)
    return {column: header.index(column) for column in selected}


def _empty(path: Path, columns: _Columns) -> DataError:
    names = list(columns.names)
    return DataError(f"{path}: got an empty file, expected a header line with the columns {names}")


def _plain(
    path: Path, numbered: Iterator[tuple[int, bytes]], columns: _Columns, delimiter: str
) -> Iterator[Row]:
    first = next(numbered, None)
    if first is None:
        raise _empty(path, columns)
    try:
        header = decode(first[1]).split(delimiter)
    except ValueError as error:
        msg = f"{path}, line 1: {error}"
        raise DataError(msg) from error
    indices = _indices(path, header, columns)
    for number, raw in numbered:
        if not raw:
            continue
        try:
            fields = decode(raw).split(delimiter)
        except ValueError as error:
            yield Row(number, {}, str(error))
            continue
        if len(fields) == len(header):
            yield Row(number, {column: fields[i] for column, i in indices.items()})
        else:
            yield Row(number, {}, f"got {len(fields)} fields, expected {len(header)}")


def _quoted(
    path: Path, numbered: Iterable[tuple[int, bytes]], columns: _Columns, delimiter: str
) -> Iterator[Row]:
    # Broken bytes pass the parser as lone surrogates, so that each record has its own error.
    text = (raw.decode("utf-8", "surrogateescape") + "\n" for _, raw in numbered)
    parser = csv.reader(text, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    indices: dict[str, int] = {}
    while True:
        start = parser.line_num + 1
        try:
            fields = next(parser, None)
            if fields is None:
                break
            if not fields:
                continue
            for field in fields:
                decode(field.encode("utf-8", "surrogateescape"))
            if header is not None and len(fields) != len(header):
                msg = f"got {len(fields)} fields, expected {len(header)}"
                raise ValueError(msg)
        except DataError:  # of the file, not of a row
            raise
        except (csv.Error, ValueError) as error:
            end = f" (the record ends in line {parser.line_num})" if parser.line_num > start else ""
            if header is None:
                msg = f"{path}, line {start}: {error}"
                raise DataError(msg) from error
            yield Row(start, {}, f"{error}{end}")
            continue
        if header is None:
            header, indices = fields, _indices(path, fields, columns)
        else:
            yield Row(start, {column: fields[i] for column, i in indices.items()})
    if header is None:
        raise _empty(path, columns)


def _json_lines(numbered: Iterable[tuple[int, bytes]], columns: _Columns) -> Iterator[Row]:
    for number, raw in numbered:
        if not raw.strip():
            continue
        if raw.count(b"[") + raw.count(b"{") > NESTED_LIMIT:
            # Each may be two bytes of the line, but takes 56 bytes or more of memory.
            yield Row(number, {}, f"more than {NESTED_LIMIT:,} lists and objects in a JSON value")
            continue
        try:
            value = json.loads(decode(raw))
        except (ValueError, RecursionError) as error:
            broken = "broken encoding" in str(error)
            yield Row(number, {}, str(error) if broken else f"not a JSON value ({error})")
            continue
        yield _select(number, value, columns)


def _select(line: int, value: Any, columns: _Columns, entry: int | None = None) -> Row:
    """Return the row of a JSON object."""
    if not isinstance(value, dict):
        problem = f"got a JSON {type(value).__name__}, expected an object"
        return Row(line, {}, problem, entry)
    values = {name: part for name in columns.names for part in look_up(value, name)}
    _, missing = columns.within(list(values))
    if missing:
        problem = f"got columns {brief(list(flat(value)))}, expected {missing} among them"
        return Row(line, {}, problem, entry)
    return check_row(line, values)._replace(entry=entry)


def _parquet(path: Path, file: BinaryIO, selection: _Columns) -> Iterator[Row]:
    from pyarrow import parquet

    limit = allowance(file)
    try:
        schema = parquet.read_schema(file)
        columns, _ = selection.within(schema.names)
        texts = _text_columns(path, schema, columns)
        # A few kilobytes of Parquet may repeat one long text a million times. So texts are read as
        # a dictionary and indices, and their size is computed before they are expanded.
        with parquet.ParquetFile(file, read_dictionary=texts) as reader:
            groups = range(reader.metadata.num_row_groups)
            if sum(reader.metadata.row_group(i).total_byte_size for i in groups) > limit:
                raise too_large(path, "as its metadata say", limit)
            line = total = 0
            for batch in reader.iter_batches(columns=columns):
                total += sum(_size(column) for column in batch.columns)
                if total > limit:
                    raise too_large(path, f"rows from {line + 1} on", limit)
                lists = [_to_list(batch.column(column)) for column in columns]
                for values in zip(*lists, strict=True):
                    line += 1
                    yield check_row(line, dict(zip(columns, values, strict=True)))
    except DataError:
        raise
    # Invalid metadata lead the library to exceptions of any kind.
    except Exception as error:
        msg = f"{path}: got a file that cannot be read as Parquet ({brief(str(error))})"
        raise DataError(msg) from error


def _text_columns(path: Path, schema: Any, columns: Sequence[str]) -> list[str]:
    """Return the columns that hold texts; the others hold numbers."""
    from pyarrow import types

    names = schema.names
    missing = [column for column in columns if names.count(column) != 1]
    if missing:
        msg = f"{path}: got columns {brief(names)}, expected {missing} among them, once"
        raise DataError(msg)
    texts = []
    for column in columns:
        kind = schema.field(column).type
        # A dictionary of texts is a compact form of a column of texts.
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if any(
            is_text(kind)
            for is_text in (
                types.is_string,
                types.is_large_string,
                types.is_string_view,
                types.is_binary,
                types.is_large_binary,
                types.is_binary_view,
            )
        ):
            texts.append(column)
        elif not (
            types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_boolean(kind)
            or types.is_null(kind)
        ):
            msg = f"{path}: got column {column!r} of {brief(str(kind))}, expected text or numbers"
            if types.is_nested(kind):
                msg += (
                    ": a text with several labels (multi-label data) is not supported; write one "
                    "label in each row"
                )
            raise DataError(msg)
    return texts


def _size(column: Any) -> int:
    """Return the memory of a column in bytes, with the overhead of its rows."""
    from pyarrow import compute, types

    size = ROW * len(column)
    if types.is_dictionary(column.type):
        lengths = compute.binary_length(column.dictionary)
        return size + (compute.sum(lengths.take(column.indices)).as_py() or 0)
    return size + int(column.nbytes)


def _to_list(column: Any) -> list[Any]:
    """Return the values of a column; texts as bytes, as a file may declare invalid UTF-8."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode().cast(pyarrow.large_binary())
    return list(column.to_pylist())
