"""The base of corpora of a user's own files: one path for each split."""

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from datamodules.batching.examples import Example
from datamodules.batching.sampler import permutation
from datamodules.labelled import Split, TextDataModule
from datamodules.sources.readers import DataError
from text import check_range, label_text


class UserFiles(TextDataModule):
    """A corpus of files that the user names; if no validation file is given, a tenth validates.

    Args:
        train: file to train on; also defines the classes, unless `classes` is given.
        validation: file to validate on; a tenth of the training rows, always the same, if not
            given.
        test: file to test and to predict on; to predict, it needs no labels.
        test_share: share of the training rows that test instead, always the same ones; null: none.
        classes: class names; found in `train` if not given.
        min_rows_per_class: training stops if a class (a type of tags) has fewer training rows
            before `limit_train`, which may be due to a typo. 0 allows a class without rows.
        name: name of the corpus, in results.
        data_dir: folder in which relative file names are looked up; the current one if not given.
        base: settings of `TextDataModule`.
    """

    classes: ClassVar[tuple[str, ...]] = ()
    holdout = 0.1

    def __init__(
        self,
        *,
        train: str | None = None,
        validation: str | None = None,
        test: str | None = None,
        test_share: float | None = None,
        classes: list[str] | None = None,
        min_rows_per_class: int = 2,
        name: str = "text_files",
        data_dir: str | None = None,
        **base: Any,
    ) -> None:
        super().__init__(data_dir=data_dir, **base)
        # Names that `label_text` cannot tell apart (1 and 1.0) are one class.
        if classes is not None and len({label_text(name) for name in classes} - {None}) < max(
            2, len(classes)
        ):
            msg = f"got classes {classes}, expected at least two different ones"
            raise ValueError(msg)
        check_range({"min_rows_per_class": min_rows_per_class}, least=0)
        check_range({"test_share": test_share}, above=0, below=1)
        if test is not None and test_share is not None:
            msg = f"got test {test} and test_share {test_share}, expected one of the two"
            raise ValueError(msg)
        self.test_share = test_share
        last = test if test_share is None else train
        self.paths = {"train": train, "validation": validation, "test": last}
        self.class_names = list(classes or ())
        self.min_rows_per_class = min_rows_per_class
        self.corpus = name

    def _load(self, split: Split) -> None:
        # Also a reader of one split alone, as a study is, needs the classes.
        if not self.class_names and self.task != "regression":
            path = self._file("train")
            if path is None:
                msg = (
                    "got neither classes nor a training file, expected `--data.classes` to name "
                    "them"
                )
                raise DataError(msg)
            self.class_names = self._find_classes(path)
        super()._load(split)

    @abstractmethod
    def _find_classes(self, path: Path) -> list[str]:
        """Find the class names that a training file holds."""

    def _read(self, split: Split) -> list[Example]:
        if self.test_share is None or split == "validation":
            return super()._read(split)
        rows = super()._read("train")
        order = permutation(len(rows), 6)
        count = round(self.test_share * len(rows))
        if not 0 < count < len(rows):
            msg = (
                f"{self.corpus}: got {len(rows)} rows and test_share {self.test_share}, expected "
                "some rows to test and some to train: pass `--data.test FILE`, or more rows"
            )
            raise DataError(msg)
        chosen = order[:count] if split == "test" else order[count:]
        # In the order of the file; the same rows for every seed of a run.
        drawn = sorted(chosen.tolist())
        return [rows[row]._replace(sample_id=i) for i, row in enumerate(drawn)]

    def _splits(self, stage: str | None) -> tuple[Split, ...]:
        # Without a stage (outside a Trainer): all files that the user named.
        splits = super()._splits(stage)
        if stage is not None or len(splits) < 3:
            return splits
        return tuple(split for split in splits if self.paths[split] or split == "validation")

    def _file(self, part: str) -> Path | None:
        path = self.paths[part]
        return None if path is None else Path(self.data_dir or "", path)

    def _from_hub(self, part: str, *, cached: bool) -> Any:
        without = ", or train without a test: `fit`" if part == "test" and self.read_ahead else ""
        msg = f"got no {part} file, expected one: pass `--data.{part} FILE`{without}"
        raise DataError(msg)
