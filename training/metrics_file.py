"""Writes `metrics.csv`: the metrics of a training, for your own tables and plots."""

import csv
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from run_files import atomic
from text.bounded_files import read_bytes, reading

_FIRST = ("step", "epoch")


class MetricsFile(Logger):
    """Writes a row for each step at which a fit logs something; other columns stay empty.

    A row is on the disk as soon as its first value is logged. Evaluations write only to
    `results.json`, so the two files never contradict each other.

    Args:
        path: the file.
        begin: first step to write. Rows of later steps come from before the program was killed,
            and are written again.
    """

    # Lightning's `CSVLogger` deletes its file when a run resumes.

    def __init__(self, path: Path, *, begin: int = 0) -> None:
        super().__init__()
        self.path = path
        self.begin = begin
        self._columns: list[str] = []
        self._stream: IO[bytes] | None = None
        self._row: dict[str, str] = {}
        self._start = 0

    @property
    def name(self) -> str:
        """Return an empty name: the file is directly in the run directory."""
        return ""

    @property
    def version(self) -> str:
        """Return an empty version, for the same reason."""
        return ""

    @rank_zero_only
    def open(self) -> None:
        """Open the file for a fit; values logged outside a fit are ignored.

        Raises:
            OSError: the file cannot be written.
        """
        rows = [row for row in _rows(self.path) if int(row["step"]) < self.begin]
        self._columns = list(dict.fromkeys([*_FIRST, *(name for row in rows for name in row)]))
        self._write_anew(rows)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write or complete a row; see Lightning."""
        if self._stream is None:
            return
        # Lightning logs tensors and numpy scalars; an epoch is an integer.
        plain = {name: int(x) if name == "epoch" else float(x) for name, x in metrics.items()}
        row = {"step": str(step or 0), **{name: repr(value) for name, value in plain.items()}}
        common = row.keys() & self._row.keys()
        merged = "step" in common and all(row[name] == self._row[name] for name in common)
        if merged:
            # The merged row is longer than the old one, so it can overwrite it on the disk.
            row = self._row | row
        else:
            self._start = self._stream.seek(0, os.SEEK_END)
        # New columns change all rows: the file is written again.
        if new := [name for name in row if name not in self._columns]:
            self._columns += new
            before = [old for old in _rows(self.path) if not merged or old != self._row]
            self._write_anew([*before, row])
            return
        try:
            self._stream.seek(self._start)
            self._stream.write(_line(self._columns, row))
            self._stream.flush()
        except OSError as error:
            error.filename = str(self.path)
            raise
        self._row = row

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Do nothing: `config.yaml` has the settings."""

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Close the file; see Lightning."""
        del status
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _write_anew(self, rows: list[dict[str, str]]) -> None:
        if self._stream is not None:
            self._stream.close()
        table = [{name: name for name in self._columns}, *rows]
        lines = [_line(self._columns, row) for row in table]
        with atomic.replacing(self.path) as stream:
            stream.writelines(lines)
        # Opened for reading and writing: a row may be overwritten in its place.
        self._stream = self.path.open("r+b")
        self._row, self._start = (rows or [{}])[-1], sum(map(len, lines[:-1]))


def _line(columns: list[str], row: Mapping[str, str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([row.get(name, "") for name in columns])
    return text.getvalue().encode()


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the complete rows of the file, without empty cells; skip a torn last line."""
    if not path.exists():
        return
    lines = io.StringIO(read_bytes(path).decode(errors="replace"), newline="\n")
    with reading(path, "the metrics of a training: move it away"):
        columns, *rows = [*csv.reader(line for line in lines if line.endswith("\n"))] or [[]]
    for cells in rows:
        row = {name: cell for name, cell in zip(columns, cells, strict=False) if cell}
        if len(cells) == len(columns) and row.get("step", "").isdecimal():
            yield row
