"""Names of the columns of a table, and the usual ones."""

import csv
from collections.abc import Sequence
from pathlib import Path

from datamodules.sources.rows import decode
from datamodules.sources.structured import read_entries
from datamodules.sources.table_shape import TableShape, usual_shape
from text.bounded_files import lines, opened, parse_json, reading
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


def usual_texts(available: Sequence[str]) -> tuple[str, ...] | None:
    """Return the column or columns with a usual name of texts; None if unclear."""
    # Pairs first: `premise` with `hypothesis` beats a single `text`.
    for pair in PAIRS:
        if set(pair) <= set(available):
            return pair
    matches = [column for column in SINGLE if column in available]
    return (matches[0],) if len(matches) == 1 else None


def column_names(path: str | Path, shape: TableShape | None = None) -> list[str]:
    """Return the names of the columns of a file; of JSON, those of its first row.

    Args:
        path: the file.
        shape: of `find_shape`; None: that of `usual_shape`.

    Raises:
        DataError: no such file or format, or a first line that cannot be read.
    """
    path = Path(path)
    shape = usual_shape(path) if shape is None else shape
    if shape.format == "JSON array":
        first = next((row.values.get("value") for row in read_entries(path, shape.encoding)), None)
        return _keys(first)
    with opened(path) as file:
        if shape.format == "Parquet":
            from pyarrow import parquet

            with reading(path, "a Parquet file"):
                return [str(name) for name in parquet.read_schema(file).names]
        numbered = lines(path, file, packed=path.suffix == ".gz", encoding=shape.encoding)
        with reading(f"{path}, line 1", "names of columns"):
            line = decode(next((raw for _, raw in numbered if raw.strip()), b""))
            if shape.format == "JSON lines":
                return _keys(parse_json(line, path, "an object of columns"))
            if not shape.quoted:
                return line.split(shape.separator)
            return next(csv.reader([line], delimiter=shape.separator), [])


def _keys(row: object) -> list[str]:
    """Return the columns of a JSON object, nested ones with dots."""
    return list(flat(row)) if isinstance(row, dict) else []
