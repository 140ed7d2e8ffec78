"""What corpora of a user's own files share: one path for each split, and classes found in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datamodules.labelled import Split, TextDataModule
from datamodules.sources.readers import DataError, read_rows

LABELS = 1000
"""More labels than this are texts."""


class UserFiles(TextDataModule):
    """A corpus whose splits are files that the user names; a tenth validates where none is named.

    Subclasses fill `paths`, and `class_names` where the user names the classes.
    """

    holdout = 0.1
    paths: Mapping[str, str | None]
    """The file of each split, relative to `data_dir`."""

    def setup(self, stage: str | None = None) -> None:
        if not self.class_names and self.task != "regression":
            path = self._file("train")
            if path is None:
                msg = (
                    "got neither classes nor a training file, expected `--data.classes` to name "
                    "them"
                )
                raise DataError(msg)
            self.class_names = self._find_classes(path)
        super().setup(stage)

    def _find_classes(self, path: Path) -> list[str]:
        """The class names that a training file holds."""
        return distinct_labels(path, self.label_column)

    def _splits(self, stage: str | None) -> tuple[Split, ...]:
        # Without a stage (outside a Trainer): whatever files there are.
        splits = super()._splits(stage)
        if stage is not None or len(splits) < 3:
            return splits
        return tuple(split for split in splits if self.paths[split] or split == "validation")

    def _file(self, part: str) -> Path | None:
        given = self.paths[part]
        return None if given is None else Path(self.data_dir or "", given)

    def _from_hub(self, part: str, *, cached: bool) -> Any:
        without = ", or train without a test: `fit`" if part == "test" and self.read_ahead else ""
        msg = f"got no {part} file, expected one: pass `--data.{part} FILE`{without}"
        raise DataError(msg)


def distinct_labels(path: Path, column: str) -> list[str]:
    """The distinct labels of a file, in sorted order; numbers by their size.

    Raises:
        DataError: there is but one, or so many that they are no labels.
    """
    found: set[str] = set()
    for row in read_rows(path, (column,)):
        if row.problem is None:
            found |= {str(row.values[column]).strip()} - {"", "None"}
        if len(found) > LABELS:
            break
    if not 2 <= len(found) <= LABELS:
        count = f"more than {LABELS:,}" if len(found) > LABELS else len(found)
        msg = (
            f"{path}: got {count} distinct labels in column {column!r}, "
            f"expected 2 to {LABELS:,}: is it the right column? (`--data.label_column`)"
        )
        raise DataError(msg)
    numbers = all(label.removeprefix("-").isdecimal() for label in found)
    return sorted(found, key=int) if numbers else sorted(found)


def check_classes(classes: Sequence[str] | None) -> list[str]:
    """The class names that a user gives; none if they are to be found.

    Raises:
        ValueError: one class alone, or one twice.
    """
    if classes is not None and (len(classes) < 2 or len(set(classes)) < len(classes)):
        msg = f"got classes {classes}, expected at least two different ones"
        raise ValueError(msg)
    return [] if classes is None else list(classes)
