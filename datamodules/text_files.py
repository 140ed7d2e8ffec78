"""A user's own files."""

import math
from typing import ClassVar, Literal

from datamodules.user_files import UserFiles, check_classes
from text import check_range


class TextFiles(UserFiles):
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
        label_column: column of the label, or of the target.
        task: `classification`, or `regression` of a number.
        classes: class names as they stand in the files, or, where the files hold 0, 1, ..., what
            these mean; the distinct labels of `train`, sorted, if not given.
        target_range: least and greatest target, for regression.
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
        min_rows_per_class: training stops if a class has fewer training rows, as one has whose name
            is a typo; before `limit_train`. 0 allows a class without any.
    """

    classes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        train: str | None = None,
        validation: str | None = None,
        test: str | None = None,
        text_column: str = "text",
        text_pair_column: str | None = None,
        label_column: str = "label",
        task: Literal["classification", "regression"] = "classification",
        classes: list[str] | None = None,
        target_range: list[float] | None = None,
        name: str = "text_files",
        data_dir: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        pin_memory: bool = False,
        on_bad_row: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
        limit_train: int | None = None,
        min_rows_per_class: int = 2,
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
        if task not in ("classification", "regression"):
            msg = f"got {task=}, expected 'classification' or 'regression'"
            raise ValueError(msg)
        if task == "regression" or target_range is not None:
            self.target_range = _range(task, target_range)
        if task == "regression" and classes is not None:
            msg = f"got {classes=} for regression, which has none: leave them out"
            raise ValueError(msg)
        self.task = task
        self.corpus = name
        self.class_names = check_classes(classes)
        check_range({"min_rows_per_class": min_rows_per_class}, least=0)
        self.min_rows_per_class = min_rows_per_class
        self.text_columns = (
            (text_column,) if text_pair_column is None else (text_column, text_pair_column)
        )
        self.label_column = label_column
        self.paths = {"train": train, "validation": validation, "test": test}


def _range(task: str, given: list[float] | None) -> tuple[float, float]:
    sound = given is not None and len(given) == 2 and all(map(math.isfinite, given))
    if task != "regression" or given is None or not sound or given[0] >= given[1]:
        msg = (
            f"got target_range {given} for {task}, expected the least and the greatest target of a "
            "regression: pass `--data.task regression --data.target_range '[0, 5]'`"
        )
        raise ValueError(msg)
    return given[0], given[1]
