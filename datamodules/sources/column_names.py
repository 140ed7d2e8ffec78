"""Names of the columns of a table, and the usual ones."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from datamodules.sources.rows import decode
from datamodules.sources.structured import read_entries
from datamodules.sources.table_shape import TableShape, usual_shape
from text.bounded_files import DataError, brief, lines, opened, parse_json, reading
from text.subjects import flat

PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence_A", "sentence_B"),
    ("text", "text_pair"),
)
SINGLE = ("text", "sentence", "review", "content", "document", "tweet", "query")
LABELS = ("label", "labels", "gold_label", "class", "category", "sentiment", "target")
_NAME = 6
"""Words of the longest name of a column."""
_FIRST = 100
"""Rows of JSON whose keys are the columns."""


def usual_texts(available: Sequence[str]) -> tuple[str, ...] | None:
    """Return the column or columns with a usual name of texts; None if unclear."""
    # Pairs first: `premise` with `hypothesis` beats a single `text`.
    for pair in PAIRS:
        if set(pair) <= set(available):
            return pair
    matches = [column for column in SINGLE if column in available]
    return (matches[0],) if len(matches) == 1 else None


class LikelyColumns(NamedTuple):
    """The columns of a table that probably hold its texts and labels; None if there is none."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None


def choose_columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> LikelyColumns:
    """Choose the columns of texts and labels: by usual names, else by the content of some rows."""
    # The usual names in any case, also at the end of a path: `meta.Label`.
    usual = {name.rpartition(".")[2].lower(): name for name in reversed(names)}
    values = {
        name: [str(row[name]) for row in rows if row.get(name) not in (None, "")] for name in names
    }
    texts = tuple(usual[name] for name in usual_texts(list(usual)) or ())
    if not texts:
        words = {
            name: sum(len(value.split()) for value in column) / len(column)
            for name, column in values.items()
            if column
        }
        longest = max(words, key=lambda name: words[name], default=None)
        texts = () if longest is None or len({*values[longest]}) < 2 else (longest,)
    label = next(
        (usual[name] for name in LABELS if name in usual and usual[name] not in texts), None
    )
    if label is None:
        counts = {name: len({*column}) for name, column in values.items() if name not in texts}
        # As many values as rows are numbers of rows, or other texts.
        few = {
            name: count
            for name, count in counts.items()
            if 1 < count <= max(2, 0.5 * len(values[name]))
        }
        label = min(few, key=lambda name: few[name], default=None)
    first, second = (*texts, None, None)[:2]
    return LikelyColumns(first, second, label)


def header_problem(
    path: Path, names: Sequence[str], rows: Sequence[Mapping[str, Any]], separator: str
) -> str | None:
    """Return the reason that the first line of a table does not hold names of columns, if any."""
    # A label in the first line occurs again below it, as no name of a column does.
    repeated = any(sum(row.get(name) == name for row in rows) > 1 for name in names)
    if not repeated and all(len(name.split()) <= _NAME for name in names):
        return None
    likely = choose_columns(names, rows)
    usual = {likely.text: "text", likely.label: "label"}
    header = [usual.get(name, f"column{i}") for i, name in enumerate(names, 1)]
    header = header if {*usual} <= {*names} else ["text", "label"]
    line = separator.replace("\t", "<tab>").join(header)
    return (
        f"{path}: got a first line that looks like a row ({brief(list(names), 80)}), expected the "
        f"names of the columns: add a line before it, such as {line}"
    )


def column_names(path: str | Path, shape: TableShape | None = None) -> list[str]:
    """Return the names of the columns of a file; of JSON, those of its first rows.

    Without a shape of `find_shape`, the file has that of `usual_shape`.

    Raises:
        DataError: no such file or format, or a first line that cannot be read.
    """
    path = Path(path)
    shape = usual_shape(path) if shape is None else shape
    if shape.format == "JSON array":
        entries = islice(read_entries(path, shape.encoding), _FIRST)
        return _keys(row.values.get("value") for row in entries)
    with opened(path) as file:
        if shape.format == "Parquet":
            from pyarrow import parquet

            with reading(path, "a Parquet file"):
                return [str(name) for name in parquet.read_schema(file).names]
        numbered = lines(path, file, packed=path.suffix == ".gz", encoding=shape.encoding)
        with reading(f"{path}, line 1", "names of columns"):
            texts = (raw for _, raw in numbered if raw.strip())
            line = decode(next(texts, b""))
            if shape.format == "JSON lines":
                return _keys(_objects(path, [line.encode(), *islice(texts, _FIRST)]))
            if not shape.quoted:
                return line.split(shape.separator)
            return next(csv.reader([line], delimiter=shape.separator), [])


def _objects(path: Path, texts: Iterable[bytes]) -> Iterator[Any]:
    """Yield the values of lines of JSON; a broken line is an error only where no other precedes."""
    empty = True
    for text in texts:
        try:
            yield parse_json(text, path, "an object of columns")
            empty = False
        except DataError:
            if empty:
                raise


def _keys(rows: Iterable[object]) -> list[str]:
    """Return the columns of JSON objects, nested ones with dots."""
    return list({name: None for row in rows if isinstance(row, dict) for name in flat(row)})
