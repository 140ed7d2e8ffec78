"""A user's own files."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from datamodules.base import Split, TextDataModule
from datamodules.readers import DataError, read_rows

_CLASSES = 1000
"""More labels than this are texts."""


class TextFiles(TextDataModule):
    """Texts, or pairs of texts, from TSV, CSV, JSON Lines or Parquet files with named columns.

    A file's ending says what it is (`.tsv`, `.csv`, `.jsonl`, the three also with `.gz` behind it,
    or `.parquet`). TSV and CSV begin with a line of column names; fields of a CSV may be quoted,
    those of a TSV are taken as they stand. Encoding is UTF-8.

    Args:
        train: file to train on; also tells the class names, where `classes` does not.
        validation: file to validate on; a tenth of the training rows, always the same, if not
            given.
        test: file to test and to predict on; to predict, its labels may be empty.
        text_column: column of the text.
        text_pair_column: column of the second text of each pair, where texts are pairs.
        label_column: column of the label.
        classes: class names as they stand in the files, or, where the files hold 0, 1, ..., what
            these mean; the distinct labels of `train`, sorted, if not given.
        name: of the corpus, in results.
        data_dir: folder in which relative file names are looked up; the current one if not given.
        batch_size: training texts per batch and process.
        eval_batch_size: texts per batch and process in validation, test and prediction.
        num_workers: processes that assemble batches; texts are encoded before, so 0 is fast.
        pin_memory: keep batches in page-locked memory, which speeds up copies to a GPU.
        on_bad_row: rows that cannot be used (broken encoding, missing field, empty text, unknown
            label): `stop` the run naming them, or `skip` them and report how many.
        seed: of the order of training batches; that of `seed_everything` if not given.
        limit_train: train on this many texts only, chosen by the seed; all if not given.
    """

    classes: ClassVar[tuple[str, ...]] = ()
    holdout = 0.1

    def __init__(
        self,
        *,
        train: str | None = None,
        validation: str | None = None,
        test: str | None = None,
        text_column: str = "text",
        text_pair_column: str | None = None,
        label_column: str = "label",
        classes: list[str] | None = None,
        name: str = "text_files",
        data_dir: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        pin_memory: bool = False,
        on_bad_row: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
        limit_train: int | None = None,
    ) -> None:
        super().__init__(
            data_dir=data_dir,
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            pin_memory=pin_memory,
            on_bad_row=on_bad_row,
            seed=seed,
            limit_train=limit_train,
        )
        if classes is not None and (len(classes) < 2 or len(set(classes)) < len(classes)):
            msg = f"got classes {classes}, expected at least two different ones"
            raise ValueError(msg)
        self.corpus = name
        self.class_names = [] if classes is None else list(classes)
        self.text_columns = (
            (text_column,) if text_pair_column is None else (text_column, text_pair_column)
        )
        self.label_column = label_column
        self._paths: dict[str, str | None] = {
            "train": train,
            "validation": validation,
            "test": test,
        }

    def setup(self, stage: str | None = None) -> None:
        if not self.class_names:
            self.class_names = self._find_classes()
        super().setup(stage)

    def _splits(self, stage: str | None) -> tuple[Split, ...]:
        # Without a stage (outside a Trainer): whatever files there are.
        splits = super()._splits(stage)
        if stage is not None or len(splits) < 3:
            return splits
        return tuple(split for split in splits if self._paths[split] or split == "validation")

    def _file(self, part: str) -> Path | None:
        given = self._paths[part]
        return None if given is None else Path(self.data_dir or "", given)

    def _from_hub(self, part: str, *, cached: bool) -> Any:
        msg = f"got no {part} file, expected one: pass `--data.{part} FILE`"
        raise DataError(msg)

    def _find_classes(self) -> list[str]:
        path = self._file("train")
        if path is None:
            msg = "got neither classes nor a training file, expected `--data.classes` to name them"
            raise DataError(msg)
        rows = read_rows(path, (self.label_column,))
        found: set[str] = set()
        for row in rows:
            if row.problem is None:
                found |= {str(row.values[self.label_column]).strip()} - {"", "None"}
            if len(found) > _CLASSES:
                break
        if not 2 <= len(found) <= _CLASSES:
            count = f"more than {_CLASSES:,}" if len(found) > _CLASSES else len(found)
            msg = (
                f"{path}: got {count} distinct labels in column {self.label_column!r}, "
                f"expected 2 to {_CLASSES:,}: is it the right column? (`--data.label_column`)"
            )
            raise DataError(msg)
        numbers = all(label.removeprefix("-").isdecimal() for label in found)
        return sorted(found, key=int) if numbers else sorted(found)
