"""A user's own files."""

import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from datamodules.batching.examples import Example
from datamodules.sources.readers import DataError
from datamodules.sources.rows import Row, Split
from datamodules.sources.table_shape import check_encoding, check_separator
from datamodules.sources.text_table import TextTable
from datamodules.user_files import UserFiles

log = logging.getLogger(__name__)

SLICES = 50
"""A column of slices with more different values is an error."""


class TextFiles(UserFiles):
    """Texts, or pairs of texts, from tables, JSON or Parquet files with named columns.

    Format, separator and encoding are found from the content of each file, and logged if they are
    not the usual ones. A table begins with a line of column names; fields may be quoted, except
    between tabs. In JSON, `meta.label` names the value `label` of the object `meta`.

    Args:
        text_column: column of the text.
        text_pair_column: column of the second text of each pair, where texts are pairs.
        label_column: column of the label, or of the target.
        task: `classification`, or `regression` of a number.
        classes: class names in the files, or, if the files have 0, 1, ..., the names of these; the
            distinct labels of `train`, sorted, if not given.
        target_range: least and greatest target, for regression.
        separator: comma, semicolon, tab, pipe, or another character; found if not given.
        encoding: such as utf-8, utf-16 or latin-1; found if not given.
        slices: columns of the test file, with commas between them; a test has the figures of each
            of their values.
        base: settings of `UserFiles`.
    """

    def __init__(
        self,
        *,
        text_column: str = "text",
        text_pair_column: str | None = None,
        label_column: str = "label",
        task: Literal["classification", "regression"] = "classification",
        classes: list[str] | None = None,
        target_range: list[float] | None = None,
        separator: str | None = None,
        encoding: str | None = None,
        slices: str | None = None,
        **base: Any,
    ) -> None:
        super().__init__(classes=classes, **base)
        if task not in ("classification", "regression"):
            msg = f"got {task=}, expected 'classification' or 'regression'"
            raise ValueError(msg)
        if task == "regression" or target_range is not None:
            self.target_range = _range(task, target_range)
        if task == "regression" and classes is not None:
            msg = f"got {classes=} for regression, which has none: leave them out"
            raise ValueError(msg)
        self.table = TextTable(
            text_column=text_column,
            text_pair_column=text_pair_column,
            label_column=label_column,
            separator=check_separator(separator),
            encoding=check_encoding(encoding),
        )
        self.slices = tuple(filter(None, map(str.strip, (slices or "").split(","))))
        if slices is not None and (task == "regression" or not self.slices):
            msg = (
                f"got slices {slices!r} for {task}, expected names of columns for a classification"
            )
            raise ValueError(msg)
        self.task = task
        self.text_columns, self.label_column = self.table.text_columns, label_column
        self._remarked: set[Path] = set()

    def _find_classes(self, path: Path) -> list[str]:
        self.table.check_columns(path)
        return list(self.table.count_classes(path))

    def _columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super()._columns(), *self.slices)))

    def _optional(self) -> tuple[str, ...]:
        # Only a test needs them, see `_read`.
        return (*super()._optional(), *(set(self.slices) - set(super()._columns())))

    def _read(self, split: Split) -> list[Example]:
        path = self._file(split)
        tests = split == "test" and not self._predicts
        if tests and self.slices and path is not None:
            self.table.check_slices(path, self.slices)
        examples = super()._read(split)
        for number, column in enumerate(self.slices if tests else ()):
            count = len({example.slices[number] for example in examples})
            if count > SLICES:
                msg = (
                    f"{path}: got {count:,} different values in column {column!r} of "
                    f"`--data.slices`, expected {SLICES} at most"
                )
                raise DataError(msg)
        return examples

    def _rows(self, path: Path) -> Iterator[Row]:
        shape = self.table.shape(path)
        if shape.remarks and path not in self._remarked:
            self._remarked.add(path)
            log.info("%s: %s (%s)", path, shape, "; ".join(shape.remarks))
        return self.table.rows(path, self._columns(), self._optional())


def _range(task: str, limits: list[float] | None) -> tuple[float, float]:
    sound = limits is not None and len(limits) == 2 and all(map(math.isfinite, limits))
    if task != "regression" or limits is None or not sound or limits[0] >= limits[1]:
        msg = (
            f"got target_range {limits} for {task}, expected the least and the greatest target of "
            "a regression: pass `--data.task regression --data.target_range '[0, 5]'`"
        )
        raise ValueError(msg)
    return limits[0], limits[1]
