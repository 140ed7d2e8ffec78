"""Reads the names of the columns of a table."""

import csv
from pathlib import Path

from datamodules.sources.readers import ENDINGS, decode
from text.bounded_files import DataError, kind_of, lines, opened, parse_json, reading


def column_names(path: str | Path) -> list[str]:
    """Return the names of the columns of a file; of JSON Lines, those of its first row.

    Raises:
        DataError: no such file or format, or a first line that cannot be read.
    """
    path = Path(path)
    packed = path.suffix == ".gz"
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    if ending not in ENDINGS or kind_of(path) is None or (packed and ending == ".parquet"):
        there = "which is no file" if kind_of(path) is None else "with another ending"
        msg = f"got {path}, {there}, expected a file ending in {', '.join(ENDINGS)}"
        raise DataError(msg)
    with opened(path) as file:
        if ending == ".parquet":
            from pyarrow import parquet

            with reading(path, "a Parquet file"):
                return [str(name) for name in parquet.read_schema(file).names]
        numbered = lines(path, file, packed=packed)
        with reading(f"{path}, line 1", "names of columns"):
            first = decode(next((raw for _, raw in numbered if raw.strip()), b""))
            if ending == ".jsonl":
                row = parse_json(first, path, "an object of columns")
                return [str(name) for name in row] if isinstance(row, dict) else []
            return first.split("\t") if ending == ".tsv" else next(csv.reader([first]), [])
