"""The base of corpora with labels: reads splits, and makes loaders that a resume repeats."""

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch.utils.data import DataLoader

from datamodules.batching.encoded import EncodedTexts
from datamodules.batching.examples import (
    Example,
    Label,
    Unlabelled,
    checked,
    target,
    to_examples,
)
from datamodules.batching.sampler import permutation
from datamodules.samples import NEEDED, Samples
from datamodules.sources.readers import DataError, Row
from datamodules.sources.splits import Split
from datamodules.sources.survey import check_rows, class_rows, tell
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

    A split is read from `DIR/<corpus>/<split>.<jsonl|tsv|csv|parquet>[.gz]`; where there is no such
    file, the `datasets` library fetches it from the hub. Corpora in other formats or in several
    files for a split say so by `endings`, `_parts` and `_rows`.

    Args:
        data_dir: folder DIR that holds a folder of the corpus's name with a file for each split.
        limit_train: largest number of texts to train on, chosen by the seed; all if not given.
        positive: class that the metric `f1` is of, in a classification; the second of two classes
            if not given. `macro_f1` is the mean over all classes.
        upsample: times that each training text of a class is trained on in an epoch, by the names
            of classes: `{negative: 2}`; 1.5 repeats half of them, drawn once and for all. Texts of
            other splits are never repeated.
        base: settings of `Corpus`.

    Attributes:
        read_ahead: True if a test follows the fit. The setup of the fit then also reads the test
            split and requires its labels, so that an error is found before the training.
    """

    task: TaskName = "classification"
    """The task: classification, regression, tagging or choice."""
    target_range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest target, where the task is regression."""
    holdout: ClassVar[float] = 0.0
    """Share of the training rows that validate, in corpora without validation rows of their own."""
    synonyms: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Other names of the same classes, in the same order, under which a model may know them."""
    min_rows_per_class: int = 0
    """A fit is refused where a class has fewer training rows."""
    drop_unlabelled: ClassVar[bool] = False
    """True drops rows without label."""

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        limit_train: int | None = None,
        positive: str | None = None,
        upsample: dict[str, float] | None = None,
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
        self.class_names = list(self.classes)
        self._predicts = self._legend_logged = False
        self._class_rows: dict[str, int] = {}
        """Training rows of each class, before `limit_train`."""
        self._file_labels: ClassLabels | None = None
        self._distinct: int | None = None
        """Training rows without the copies of `upsample`, which stand behind them."""

    # What a corpus is

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """Class names, by the index that stands for them in files and results."""

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def positive_class(self) -> int | None:
        """The class that `positive` names, by its index; None without one.

        Raises:
            DataError: there is no such class, or the task has none.
        """
        if self.positive is None:
            return None
        index = ClassLabels(self.class_names, self.synonyms).find(label_text(self.positive) or "")
        if index is None or self.task != "classification":
            msg = (
                f"{self.corpus}: got positive {brief(self.positive)}, expected one of the classes "
                f"of a classification, which are {brief(self.class_names)}"
            )
            raise DataError(msg)
        return index

    @property
    def pairs(self) -> bool:
        """True for a corpus of text pairs."""
        return len(self.text_columns) == 2

    @property
    def _labels(self) -> ClassLabels:
        """The meaning of the labels of the file that is read."""
        if self._file_labels is None:
            self._file_labels = ClassLabels(self.class_names, self.synonyms)
        return self._file_labels

    def _parse(self, values: Mapping[str, Any]) -> tuple[Sample, Label | None]:
        """The sample and the label that a row holds.

        Raises:
            ValueError: it holds none.
        """
        texts = [checked(values[column], column) for column in self.text_columns]
        value = values.get(self.label_column)
        if self.task == "regression":
            label: Label | None = target(value, self.target_range)
        else:
            label = self._labels(value)
        return (texts[0] if len(texts) == 1 else (texts[0], texts[1])), label

    # From files to examples

    def _optional(self) -> tuple[str, ...]:
        return (self.label_column,) if self._predicts or not self._needs_labels() else ()

    def _needs_labels(self) -> bool:
        """Return True if the test needs labels; that of a certificate does not."""
        module = None if self.trainer is None else self.trainer.lightning_module
        return bool(getattr(module, "needs_labels", True))

    def prepare_data(self) -> None:
        """Fetch from the hub what this stage needs and the disk does not hold."""
        self.fetch(self._splits(None))

    def fetch(self, splits: Sequence[Split]) -> None:
        """Fetch from the hub what the disk does not hold of these splits."""
        for split in splits:
            for part in self._parts(self._source(split)):
                if self._file(part) is None:
                    self._from_hub(part, cached=False)

    def setup(self, stage: str | None = None) -> None:
        splits = self._splits(stage)
        if "test" in splits and self._predicts != (stage == "predict"):
            # Read anew: of rows with and without label, all are predicted, but not all are tested.
            self._predicts = stage == "predict"
            self._examples.pop("test", None)
            self._encoded.pop("test", None)
        begins = "train" in splits and "train" not in self._examples
        for split in splits:
            if split not in self._examples:
                self._load(split)
        if self.read_ahead and stage == "fit":
            self._require_labels(
                self.examples("test"), "`fit` trains without a test, `predict` needs no labels"
            )
        if begins and stage == "fit":
            check_rows(self.corpus, self._class_rows, self.min_rows_per_class)
            if self.trainer is None or self.trainer.is_global_zero:
                self._read_test()
                tell(self.corpus, self._examples, self.class_names, self.task)

    def _require_labels(self, test: Sequence[Example], advice: str) -> None:
        if any(example.label is None for example in test):
            msg = f"{self.corpus}: got a test split without labels, expected labels: {advice}"
            raise DataError(msg)

    def _splits(self, stage: str | None) -> tuple[Split, ...]:
        """The splits that a stage needs; without a stage, those of the trainer's task, or all."""
        if stage is None and self.trainer is not None and self.trainer.state.fn is not None:
            stage = self.trainer.state.fn.value
        ahead = stage == "fit" and self.read_ahead
        return ("train", "validation", "test") if stage is None or ahead else NEEDED[stage]

    def _load(self, split: Split) -> None:
        if split == "test" or not self._holds_out():
            self._examples[split] = self._read(split)
        else:
            rows = self._read("train")
            order = permutation(len(rows), 2)
            n = max(1, round(self.holdout * len(rows)))
            if n == len(rows):
                msg = f"{self.corpus}: got {n} training row(s), expected enough to validate on some"
                raise DataError(msg)
            # In the order of the file, whatever was drawn; the same for every seed of a run.
            drawn = {"validation": sorted(order[:n].tolist()), "train": sorted(order[n:].tolist())}
            for name in ("train", "validation"):
                self._examples[name] = [
                    rows[row]._replace(sample_id=i) for i, row in enumerate(drawn[name])
                ]
        if split == "train":
            train = self._examples["train"]
            self._class_rows = class_rows(train, self.class_names, self.task)
            if self.limit_train is not None:
                kept = permutation(len(train), 3, self._seed())[: self.limit_train]
                self._examples["train"] = [train[i] for i in sorted(kept.tolist())]
            self._distinct = len(self._examples["train"])
            self._examples["train"] += self._copies(self._examples["train"], len(train))

    def _copies(self, train: Sequence[Example], first: int) -> list[Example]:
        """Return what `upsample` adds to the training rows: copies with sample ids from `first`."""
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
            whole = int(times) - 1
            drawn = permutation(len(own), 4)[: round((times - 1 - whole) * len(own))]
            rows += own * whole + [own[i] for i in sorted(drawn.tolist())]
        return [train[row]._replace(sample_id=i) for i, row in enumerate(rows, first)]

    def _at_hand(self, split: Split) -> bool:
        """Return True if a split can be read without the hub."""
        return all(self._file(part) is not None for part in self._parts(self._source(split)))

    def _read_test(self) -> None:
        """Read the test split, to compare it with what is trained on, if it is at hand.

        What is wrong with it is said where it is tested.
        """
        if "test" not in self._examples and self._at_hand("test"):
            try:
                self._load("test")
            except DataError as error:
                reason = str(error).splitlines()[0]
                log.info("%s: the test split is not looked at (%s)", self.corpus, reason)

    def _holds_out(self) -> bool:
        """Return True if validation rows have to be taken from the training rows."""
        return self.holdout > 0 and self._file("validation") is None

    def _source(self, split: Split) -> Split:
        held_out = split == "validation" and self._holds_out()
        return "train" if held_out else super()._source(split)

    def _read(self, split: Split) -> list[Example]:
        parts = self._parts(self._source(split))
        examples = [one for part in parts for one in self._read_part(part, split)]
        return [example._replace(sample_id=i) for i, example in enumerate(examples)]

    def _read_part(self, part: str, split: Split) -> list[Example]:
        path = self._file(part)
        if path is not None:
            rows, place = self._rows(path), str(path)
        else:
            rows = self._hub_rows(self._from_hub(part, cached=True))
            place = f"hub dataset {self.hub_id}, split {self._hub_name(part)}"
        if not part.startswith(split):
            log.warning("%s: no labelled %s split, %s is used for it", self.corpus, split, place)
        unlabelled: Unlabelled = "drop" if self.drop_unlabelled else "bad"
        if split == "test" and not self.drop_unlabelled:
            unlabelled = "keep" if self._predicts else "all or none"
        return self._to_examples(rows, place, unlabelled)

    def _to_examples(
        self, rows: Iterable[Row], place: str, unlabelled: Unlabelled
    ) -> list[Example]:
        self._file_labels = None  # what a label means, each file decides anew
        examples = to_examples(
            rows,
            place,
            parse=self._parse,
            label_column=self.label_column,
            on_bad_row=self.on_bad_row,
            unlabelled=unlabelled,
        )
        if self._labels.by_number and self.task == "classification" and not self._legend_logged:
            self._legend_logged = True
            log.info("%s: labels are numbers: %s", self.corpus, self._labels.legend())
        return examples

    def train_texts(self) -> Iterator[Text]:
        """The texts that a vocabulary is built from: each once, however often it is trained on."""
        for example in self.examples("train")[: self._distinct]:
            if isinstance(example.text, Words):
                yield " ".join(example.text.words)
            elif isinstance(example.text, Choices):
                yield from example.text.pairs
            else:
                yield example.text

    # From examples to batches

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
        if self._needs_labels():
            self._require_labels(
                self.examples("test"), "it can be predicted and certified, and nothing else"
            )
        return super().test_dataloader()
