"""A user's own files."""

import math
from pathlib import Path
from typing import Any, Literal

from datamodules.sources.readers import DataError, read_rows
from datamodules.user_files import LABELS, UserFiles
from text import find_classes, label_text


class TextFiles(UserFiles):
    """Texts, or pairs of texts, from TSV, CSV, JSON Lines or Parquet files with named columns.

    A file's ending says what it is (`.tsv`, `.csv`, `.jsonl`, the three also with `.gz` behind it,
    or `.parquet`). TSV and CSV begin with a line of column names; fields of a CSV may be quoted,
    those of a TSV are taken as they stand. Encoding is UTF-8.

    Args:
        text_column: column of the text.
        text_pair_column: column of the second text of each pair, where texts are pairs.
        label_column: column of the label, or of the target.
        task: `classification`, or `regression` of a number.
        classes: class names as they stand in the files, or, where the files hold 0, 1, ..., what
            these mean; the distinct labels of `train`, sorted, if not given.
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
        """Find the distinct labels of a file, in sorted order; numbers by their size.

        Raises:
            DataError: there is but one, or so many that they are no labels; or a row has several.
        """
        column = self.label_column
        labels: set[str] = set()
        for row in read_rows(path, (column,)):
            try:
                label = None if row.problem is not None else label_text(row.values[column])
            except ValueError as error:
                msg = f"{path}, {row.place}: {error}"
                raise DataError(msg) from error
            labels |= set() if label is None else {label}
            if len(labels) > LABELS:
                break
        found = find_classes(labels)
        if not 2 <= len(found) <= LABELS:
            count = f"more than {LABELS:,}" if len(found) > LABELS else len(found)
            msg = (
                f"{path}: got {count} distinct labels in column {column!r}, "
                f"expected 2 to {LABELS:,}: is it the right column? (`--data.label_column`)"
            )
            raise DataError(msg)
        return found


def _range(task: str, given: list[float] | None) -> tuple[float, float]:
    sound = given is not None and len(given) == 2 and all(map(math.isfinite, given))
    if task != "regression" or given is None or not sound or given[0] >= given[1]:
        msg = (
            f"got target_range {given} for {task}, expected the least and the greatest target of a "
            "regression: pass `--data.task regression --data.target_range '[0, 5]'`"
        )
        raise ValueError(msg)
    return given[0], given[1]
