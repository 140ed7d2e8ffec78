"""A user's own files."""

import math
from pathlib import Path
from typing import Any, Literal

from datamodules.sources.readers import DataError, read_rows
from datamodules.user_files import LABELS, UserFiles
from text import find_classes, label_text


class TextFiles(UserFiles):
    """Texts, or pairs of texts, from TSV, CSV, JSON Lines or Parquet files with named columns.

    The ending of a file determines its format (`.tsv`, `.csv`, `.jsonl`, the three also with `.gz`,
    or `.parquet`). TSV and CSV begin with a line of column names; fields of a CSV may be quoted,
    those of a TSV may not. Encoding is UTF-8.

    Args:
        text_column: column of the text.
        text_pair_column: column of the second text of each pair, where texts are pairs.
        label_column: column of the label, or of the target.
        task: `classification`, or `regression` of a number.
        classes: class names in the files, or, if the files have 0, 1, ..., the names of these; the
            distinct labels of `train`, sorted, if not given.
        target_range: least and greatest target, for regression.
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
        self.task = task
        self.text_columns = (
            (text_column,) if text_pair_column is None else (text_column, text_pair_column)
        )
        self.label_column = label_column

    def _find_classes(self, path: Path) -> list[str]:
        """Find the distinct labels of a file, in sorted order; numbers by their size."""
        column = self.label_column
        labels: set[str] = set()
        for row in read_rows(path, (column,)):
            try:
                label = None if row.problem is not None else label_text(row.values[column])
            except ValueError as error:
                msg = f"{path}, {row.place}: {error}"
                raise DataError(msg) from error
            # Bad rows are reported later, by `_read`.
            labels |= set() if label is None else {label}
            if len(labels) > LABELS:
                break
        classes = find_classes(labels)
        if not 2 <= len(classes) <= LABELS:
            count = f"more than {LABELS:,}" if len(classes) > LABELS else len(classes)
            msg = (
                f"{path}: got {count} distinct labels in column {column!r}, "
                f"expected 2 to {LABELS:,}: is it the right column? (`--data.label_column`)"
            )
            raise DataError(msg)
        return classes


def _range(task: str, limits: list[float] | None) -> tuple[float, float]:
    sound = limits is not None and len(limits) == 2 and all(map(math.isfinite, limits))
    if task != "regression" or limits is None or not sound or limits[0] >= limits[1]:
        msg = (
            f"got target_range {limits} for {task}, expected the least and the greatest target of "
            "a regression: pass `--data.task regression --data.target_range '[0, 5]'`"
        )
        raise ValueError(msg)
    return limits[0], limits[1]
