"""The base of corpora with labels: reads splits, and makes loaders that a resume repeats."""

import difflib
import logging
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from torch.utils.data import DataLoader

from datamodules.batching.encoded import EncodedTexts
from datamodules.batching.examples import Example, Label, Unlabelled, target, to_examples, to_text
from datamodules.batching.sampler import permutation
from datamodules.samples import NEEDED, Samples
from datamodules.sources.readers import DataError, Row
from datamodules.sources.rows import Split
from datamodules.sources.survey import check_rows, class_rows, log_splits
from text import (
    Batch,
    Choices,
    ClassLabels,
    Sample,
    TaskName,
    Text,
    Tokenizer,
    Words,
    check_range,
    label_text,
)
from text.bounded_files import brief

__all__ = ["Split", "TextDataModule"]

log = logging.getLogger(__name__)


class TextDataModule(Samples):
    """A corpus of texts with labels; a subclass names its files, columns and classes.

    A split is read from `DIR/<corpus>/<split>.<jsonl|tsv|csv|parquet>[.gz]`; without such a file,
    the `datasets` library fetches it from the hub. Corpora in other formats, or with several files
    for a split, override `endings`, `_parts` and `_rows`.

    Args:
        data_dir: folder DIR that holds a folder of the corpus's name with a file for each split.
        limit_train: largest number of texts to train on, chosen by the seed; all if not given.
        positive: class of the metric `f1`, in a classification; the second of two classes if not
            given. `macro_f1` is the mean over all classes.
        upsample: number of times that each training text of a class is trained on in an epoch, by
            the names of classes: `{negative: 2}`; 1.5 repeats half of them, the same in all runs.
            Texts of other splits are never repeated.
        against_rest: read a classification of several classes as two, `rest` and this class.
        base: settings of `Corpus`.

    Attributes:
        read_ahead: True if a test follows the fit. The setup of the fit then also reads the test
            split and requires its labels, so that its errors stop the run before the training.
    """

    task: TaskName = "classification"
    """The task: classification, regression, tagging or choice."""
    target_range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest target, where the task is regression."""
    holdout: ClassVar[float] = 0.0
    """Share of the training rows that validate, in corpora without a validation split."""
    synonyms: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Other names of the same classes, in the same order, which a model may use."""
    min_rows_per_class: int = 0
    """A fit is refused if a class has fewer training rows."""
    drop_unlabelled: ClassVar[bool] = False
    """True drops rows without label."""
    needs_labels: bool = True
    """True if a test split needs labels; certificates do without."""
    slices: tuple[str, ...] = ()
    """Columns whose values have figures of their own in a test."""

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        limit_train: int | None = None,
        positive: str | None = None,
        upsample: dict[str, float] | None = None,
        against_rest: str | None = None,
        **base: Any,
    ) -> None:
        super().__init__(data_dir=data_dir, **base)
        check_range({"limit_train": limit_train}, least=1)
        check_range(
            {f"upsample.{name}": times for name, times in (upsample or {}).items()}, least=1
        )
        self.positive = positive
        self.limit_train, self.upsample = limit_train, dict(upsample or {})
        self.read_ahead = False
        self.against_rest = against_rest
        # Names of the classes in files; None until `setup` has merged them.
        self._file_classes: list[str] | None = None
        self.class_names = list(self.classes)
        self._predicts = self._legend_logged = False
        # Training rows of each class, before `limit_train`.
        self._class_rows: dict[str, int] = {}
        self._file_labels: ClassLabels | None = None
        # Training rows without the copies of `upsample`, which come after them.
        self._distinct: int | None = None

    # Definition of the corpus

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """Class names, by their index in files and results."""

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def positive_class(self) -> int | None:
        """The class that `positive` names, by its index; None without one."""
        if self.positive is None:
            return None
        index = ClassLabels(self.class_names, self.own_synonyms).find(
            label_text(self.positive) or ""
        )
        if index is None or self.task != "classification":
            msg = (
                f"{self.corpus}: got positive {brief(self.positive)}, expected one of the classes "
                f"of a classification, which are {brief(self.class_names)}"
            )
            raise DataError(msg)
        return index

    @property
    def own_synonyms(self) -> tuple[tuple[str, ...], ...]:
        """Other names of `class_names`."""
        return self.synonyms if self._file_classes is None else ()

    @property
    def pairs(self) -> bool:
        """True for a corpus of text pairs."""
        return len(self.text_columns) == 2

    @property
    def _labels(self) -> ClassLabels:
        """The meaning of the labels of the file that is read."""
        if self._file_labels is None:
            self._file_labels = ClassLabels(self._file_classes or self.class_names, self.synonyms)
        return self._file_labels

    def _parse(self, values: Mapping[str, Any]) -> tuple[Sample, Label | None]:
        """Return the sample and the label of a row; raise ValueError if they are invalid."""
        text, value = to_text(values, self.text_columns), values.get(self.label_column)
        if self.task == "regression":
            label: Label | None = target(value, self.target_range)
        else:
            label = self._labels(value)
            if self._file_classes is not None and label is not None:
                label = int(label == self._file_classes.index(self.class_names[1]))
        return text, label

    def _merge_classes(self) -> None:
        """Make two classes of all: `rest` and the one of `against_rest`.

        Raises:
            DataError: no such class, or another task.
        """
        if self.against_rest is None or self._file_classes is not None:
            return
        names = self.class_names
        index = ClassLabels(names, self.synonyms).find(label_text(self.against_rest) or "")
        if index is None or self.task != "classification":
            folded = {name.casefold(): name for name in names}
            near = difflib.get_close_matches(self.against_rest.casefold(), folded, n=1)
            hint = f"; did you mean {folded[near[0]]}?" if near else ""
            msg = (
                f"{self.corpus}: got against_rest {brief(self.against_rest)}, expected one of the "
                f"classes of a classification, which are {brief(names)}{hint}"
            )
            raise DataError(msg)
        self._file_classes, self.class_names = names, ["rest", names[index]]

    # Reading files

    def _optional(self) -> tuple[str, ...]:
        return (self.label_column,) if self._predicts or not self.needs_labels else ()

    def prepare_data(self) -> None:
        """Fetch from the hub the files of this stage that are not on the disk."""
        self.fetch(self._splits(None))

    def fetch(self, splits: Sequence[Split]) -> None:
        """Fetch from the hub the files of these splits that are not on the disk."""
        for split in splits:
            for part in self._parts(self._source(split)):
                if self._file(part) is None:
                    self._from_hub(part, cached=False)

    def setup(self, stage: str | None = None) -> None:
        splits = self._splits(stage)
        if "test" in splits and self._predicts != (stage == "predict"):
            # Read again: prediction includes rows without labels, a test does not.
            self._predicts = stage == "predict"
            self._examples.pop("test", None)
            self._encoded.pop("test", None)
        # Checks and messages only once, at the first setup of a fit.
        begins = "train" in splits and "train" not in self._examples
        for split in splits:
            if split not in self._examples:
                self._load(split)
        if self.read_ahead and stage == "fit":
            self._require_labels(
                self.examples("test"), "`fit` trains without a test, `predict` needs no labels"
            )
            self._require_test_batches(len(self.examples("test")))
        if begins and stage == "fit":
            check_rows(self.corpus, self._class_rows, self.min_rows_per_class)
            if self.trainer is None or self.trainer.is_global_zero:
                self._read_test()
                log_splits(self.corpus, self._examples, self.class_names, self.task)

    def _require_labels(self, test: Sequence[Example], advice: str) -> None:
        if any(example.label is None for example in test):
            msg = f"{self.corpus}: got a test split without labels, expected labels: {advice}"
            raise DataError(msg)

    def _require_test_batches(self, rows: int) -> None:
        """Refuse a share of the test batches below one batch; Lightning would after the fit."""
        share = getattr(self.trainer, "limit_test_batches", None)
        batches = math.ceil(rows / (self.eval_batch_size * self._processes()[0]))
        if isinstance(share, float) and 0 < share * batches < 1:
            msg = (
                f"got --trainer.limit_test_batches {share} of {batches} batches of the test split, "
                f"expected one or more: a share of 1/{batches} or more, or a whole number"
            )
            raise ValueError(msg)

    def _splits(self, stage: str | None) -> tuple[Split, ...]:
        """Return the splits of a stage; without a stage, those of the trainer's task, or all."""
        if stage is None and self.trainer is not None and self.trainer.state.fn is not None:
            stage = self.trainer.state.fn.value
        ahead = stage == "fit" and self.read_ahead
        return ("train", "validation", "test") if stage is None or ahead else NEEDED[stage]

    def _load(self, split: Split) -> None:
        self._merge_classes()
        if split == "test" or not self._holds_out():
            self._examples[split] = self._read(split)
        else:
            rows = self._read("train")
            order = permutation(len(rows), 2)
            n = max(1, round(self.holdout * len(rows)))
            if n == len(rows):
                msg = f"{self.corpus}: got {n} training row(s), expected enough to validate on some"
                raise DataError(msg)
            # In the order of the file; the same rows for every seed of a run.
            drawn = {"validation": sorted(order[:n].tolist()), "train": sorted(order[n:].tolist())}
            for name in ("train", "validation"):
                self._examples[name] = [
                    rows[row]._replace(sample_id=i) for i, row in enumerate(drawn[name])
                ]
        if split == "train":
            train = self._examples["train"]
            # Counted before `limit_train`, which may drop a rare class.
            self._class_rows = class_rows(train, self.class_names, self.task)
            if self.limit_train is not None:
                chosen = permutation(len(train), 3, self._seed())[: self.limit_train]
                self._examples["train"] = [train[i] for i in sorted(chosen.tolist())]
            self._distinct = len(self._examples["train"])
            self._examples["train"] += self._copies(self._examples["train"], len(train))

    def _copies(self, train: Sequence[Example], first: int) -> list[Example]:
        """Return the copies that `upsample` adds to training rows, with sample ids from `first`."""
        unknown = sorted(self.upsample.keys() - set(self.class_names))
        if self.upsample and (self.task != "classification" or unknown):
            msg = (
                f"{self.corpus}: got upsample of {brief(unknown or list(self.upsample))}, expected "
                f"classes of a classification, which are {brief(self.class_names)}"
            )
            raise DataError(msg)
        rows: list[int] = []
        for name, times in self.upsample.items():
            label = self.class_names.index(name)
            own = [row for row, example in enumerate(train) if example.label == label]
            full = int(times) - 1
            # The fraction of `times` repeats a random part of the rows.
            drawn = permutation(len(own), 4)[: round((times - 1 - full) * len(own))]
            rows += own * full + [own[i] for i in sorted(drawn.tolist())]
        return [train[row]._replace(sample_id=i) for i, row in enumerate(rows, first)]

    def _is_local(self, split: Split) -> bool:
        """Return True if a split can be read without the hub."""
        return all(self._file(part) is not None for part in self._parts(self._source(split)))

    def _read_test(self) -> None:
        """Read a local test split, to compare it with the training texts."""
        if "test" not in self._examples and self._is_local("test"):
            try:
                self._load("test")
            except DataError as error:
                reason = str(error).splitlines()[0]
                log.info("%s: the test split is not looked at (%s)", self.corpus, reason)

    def training_rows(self) -> list[Example]:
        """Return the training rows, also after a test alone; none if no file here has them."""
        if "train" not in self._examples and self._is_local(self._source("train")):
            with suppress(DataError):  # a test does not need them
                self._load("train")
        return self._examples.get("train", [])

    def _holds_out(self) -> bool:
        """Return True if training rows must serve as validation rows."""
        return self.holdout > 0 and self._file("validation") is None

    def _source(self, split: Split) -> Split:
        held_out = split == "validation" and self._holds_out()
        return "train" if held_out else super()._source(split)

    def _read(self, split: Split) -> list[Example]:
        parts = self._parts(self._source(split))
        examples = [example for part in parts for example in self._read_part(part, split)]
        return [example._replace(sample_id=i) for i, example in enumerate(examples)]

    def _read_part(self, part: str, split: Split) -> list[Example]:
        path = self._file(part)
        if path is not None:
            rows, source = self._rows(path), str(path)
        else:
            rows = self._hub_rows(self._from_hub(part, cached=True))
            source = f"hub dataset {self.hub_id}, split {self._hub_name(part)}"
        if not part.startswith(split):
            log.warning("%s: no labelled %s split, %s is used for it", self.corpus, split, source)
        unlabelled: Unlabelled = "drop" if self.drop_unlabelled else "bad"
        # A test file may have no labels at all; for a prediction, some may be missing.
        if split == "test" and not self.drop_unlabelled:
            unlabelled = "keep" if self._predicts else "all or none"
        return self._to_examples(rows, source, unlabelled)

    def _to_examples(
        self, rows: Iterable[Row], source: str, unlabelled: Unlabelled
    ) -> list[Example]:
        self._file_labels = None  # each file has its own meaning of labels
        examples = to_examples(
            rows,
            source,
            parse=self._parse,
            label_column=self.label_column,
            on_bad_row=self.on_bad_row,
            unlabelled=unlabelled,
            slices=self.slices,
        )
        if self._labels.by_number and self.task == "classification" and not self._legend_logged:
            self._legend_logged = True
            log.info("%s: labels are numbers: %s", self.corpus, self._labels.legend())
        return examples

    def train_texts(self) -> Iterator[Text]:
        """Yield the texts of the vocabulary: each once, without the copies of `upsample`."""
        for example in self.examples("train")[: self._distinct]:
            # `Words` and `Choices` are tuples, like a pair: test for them first.
            if isinstance(example.text, Words):
                yield " ".join(example.text.words)
            elif isinstance(example.text, Choices):
                yield from example.text.pairs
            else:
                yield example.text

    # Making batches

    def _encoding(self, split: Split, tokenizer: Tokenizer) -> EncodedTexts:
        choices = len(self.class_names) if self.task == "choice" else 1
        encoded = EncodedTexts(self.examples(split), tokenizer, pairs=self.pairs, choices=choices)
        if encoded.truncated:
            untagged = (
                f": {encoded.words_cut} of {encoded.words} words are cut off, which training "
                "does not see and figures count as wrong"
            )
            log.warning(
                "%s: %d of %d %s texts cut to %d tokens%s",
                self.corpus,
                encoded.truncated,
                len(encoded),
                split,
                tokenizer.max_length,
                untagged if encoded.words_cut else "",
            )
        return encoded

    def test_dataloader(self) -> DataLoader[Batch]:
        if self.needs_labels:
            self._require_labels(
                self.examples("test"), "it can be predicted and certified, and nothing else"
            )
        return super().test_dataloader()
