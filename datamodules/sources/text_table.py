"""A user's tables of labelled texts: columns, classes, and all reasons to refuse them.

The command line checks files with it before torch is loaded; `TextFiles` reads with it.
"""

import difflib
import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from datamodules.batching.examples import Example, Unlabelled, target, to_examples, to_text
from datamodules.sources.column_names import choose_columns, column_names, header_problem
from datamodules.sources.readers import DataError, Row, read_rows
from datamodules.sources.rows import Split
from datamodules.sources.survey import check_rows
from datamodules.sources.table_shape import SEPARATORS, TableShape, find_shape
from text.bounded_files import brief
from text.labels import ClassLabels, FileLabelsError, find_classes, label_text

LABELS = 1000
"""A column with more different values is not a column of labels."""
_SHOWN = 5
"""Unreadable rows that an error shows."""
_FIRST = 200
"""Rows that hint at the columns of texts and labels."""
_WORDS = 3
"""Labels of more words are texts."""


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """The settings of `TextFiles` that say how a table is read.

    Attributes:
        text_column: column of the text.
        text_pair_column: column of the second text of each pair.
        label_column: column of the label, or of the target.
        task: of the labels.
        classes: class names; found in the training file if empty.
        target_range: least and greatest target of a regression.
        separator: between the fields of a table; found if None.
        encoding: of the file; found if None.
    """

    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    task: Literal["classification", "regression"] = "classification"
    classes: tuple[str, ...] = ()
    target_range: tuple[float, float] = (-math.inf, math.inf)
    separator: str | None = None
    encoding: str | None = None

    @property
    def text_columns(self) -> tuple[str, ...]:
        second = self.text_pair_column
        return (self.text_column,) if second is None else (self.text_column, second)

    def shape(self, path: Path) -> TableShape:
        """Return the shape of a file; see `find_shape`."""
        return find_shape(path, self.separator, self.encoding)

    def rows(
        self, path: Path, columns: Sequence[str], optional: Collection[str] = ()
    ) -> Iterator[Row]:
        """Yield the rows of a file; see `read_rows`."""
        return read_rows(path, columns, optional=optional, shape=self.shape(path))

    def check_columns(self, path: Path, *, labelled: bool = True) -> None:
        """Check that a file has the columns.

        Raises:
            DataError: it lacks some of them; the message has the columns of the file, and the
                option of each missing one with the most likely column.
        """
        names = column_names(path, self.shape(path))
        if not any(names):
            msg = f"{path}: got an empty file, or one without columns, expected a first line with "
            msg += "their names, or JSON objects"
            raise DataError(msg)
        columns = {"text_column": self.text_column, "text_pair_column": self.text_pair_column}
        columns |= {"label_column": self.label_column} if labelled else {}
        missing = {
            name: column for name, column in columns.items() if column and names.count(column) != 1
        }
        if not missing:
            return
        marks = {names[0].count(mark): name for name, mark in SEPARATORS.items()}
        if self.separator is not None and len(names) == 1 and max(marks) > 0:
            msg = f"{path}: got a first line without {self.separator!r} ({brief(names[0])}), "
            msg += "expected the separator of its columns: did you mean `--data.separator "
            msg += f"{marks[max(marks)]}`?"
            raise DataError(msg)
        twice = [column for column in missing.values() if column in names]
        if twice:
            msg = f"{path}: got column {brief(twice[0])} twice, expected it once: rename one"
            raise DataError(msg)
        samples = list(islice(self.samples(path, names), _FIRST))
        shape = self.shape(path)
        if shape.format == "table" and (
            problem := header_problem(path, names, samples, shape.separator)
        ):
            raise DataError(problem)
        likely = choose_columns(names, samples)
        guesses = {
            "text_column": likely.text,
            "text_pair_column": likely.pair,
            "label_column": likely.label,
        }
        parts = []
        for name, column in missing.items():
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.7)
            guess = near[0] if near else guesses[name]
            parts.append(f"`--data.{name} {_word(guess or 'COLUMN')}`")
        if likely.pair and self.text_pair_column is None and "text_column" in missing:
            parts.append(f"`--data.text_pair_column {_word(likely.pair)}`")
        lacks = ", ".join(map(repr, missing.values()))
        listed = brief(list(names)) if len(str(names)) > 300 else ", ".join(names)
        noun = "column" if len(missing) == 1 else "columns"
        msg = f"{path}: got no {noun} {lacks}; the file has {listed}: did you mean "
        msg += f"{', '.join(parts)}?"
        raise DataError(msg)

    def check_slices(self, path: Path, slices: Sequence[str]) -> None:
        """Check that a file has the columns of `--data.slices`.

        Raises:
            DataError: it lacks one, or has it twice; the message has the columns of the file.
        """
        names = column_names(path, self.shape(path))
        for column in slices:
            if names.count(column) == 1:
                continue
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.6)
            hint = f": did you mean `--data.slices {_word(near[0])}`?" if near else ""
            listed = brief(list(names)) if len(str(names)) > 300 else ", ".join(names)
            count = "twice" if column in names else "not found"
            msg = f"{path}: column {column!r} of `--data.slices` {count}, expected once; the file "
            msg += f"has {listed}{hint}"
            raise DataError(msg)

    def samples(self, path: Path, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield the values of all columns of the readable rows; nothing where no row is."""
        unique = [name for name in names if names.count(name) == 1]
        try:
            for row in self.rows(path, unique, optional=unique):
                if row.problem is None:
                    yield row.values
        except DataError:  # such as a column of lists: another check names it
            return

    def count_classes(self, path: Path) -> dict[str, int]:
        """Return the rows of each label of a file, in sorted order; numbers by their size.

        Raises:
            DataError: fewer than two or more than `LABELS`, also because rows are unreadable or
                have several labels.
        """
        labels: Counter[str] = Counter()
        unreadable = list[str]()
        bad = rows = 0
        for row in self.rows(path, (self.label_column,)):
            rows += 1
            label, problem = None, row.problem
            try:
                label = None if problem is not None else label_text(row.values[self.label_column])
            except FileLabelsError as error:
                problem = str(error)
            # Bad rows are reported by `to_examples`, unless they hide the classes.
            if problem is not None:
                bad += 1
                unreadable += [f"{path}, {row.place}: {problem}"] if bad <= _SHOWN else []
            elif label is not None:
                labels[label] += 1
            # One too many is enough for the error: the rest of a large file is not read.
            if len(labels) > LABELS:
                break
        classes = find_classes(labels)
        if not labels and not bad and not rows:
            msg = f"{path}: got no rows after the names of the columns, expected texts and labels"
            raise DataError(msg)
        if len(classes) < 2 and bad:
            msg = f"{path}: got {bad:,} unreadable rows, expected none"
            raise DataError("\n".join([msg, *unreadable]))
        swapped = _are_texts(classes) and len(classes) > rows / 2
        if not 2 <= len(classes) <= LABELS or swapped:
            number = f"more than {LABELS:,}" if len(classes) > LABELS else len(classes)
            msg = (
                f"{path}: got {number} distinct labels in column {self.label_column!r}, "
                f"expected 2 to {LABELS:,}{self._reason(classes)}"
            )
            raise DataError(msg)
        return {name: labels[name] for name in classes}

    def _reason(self, classes: Sequence[str]) -> str:
        """Return the probable reason for too few or too many classes."""
        if not classes:
            return ": all are empty; is it the right column? (`--data.label_column`)"
        if len(classes) == 1:
            return f": {classes[0]!r} in all rows; add rows of other classes"
        if all(map(is_numeric, classes)):
            return ": these are numbers; `--data.task regression` predicts them"
        if _are_texts(classes):
            return (
                f": these are texts; are text and label swapped? (`--data.text_column "
                f"{_word(self.label_column)} --data.label_column {_word(self.text_column)}`)"
            )
        return ": is it the right column? (`--data.label_column`)"

    def find_range(self, path: Path, *, fractions: bool = False) -> tuple[float, float] | None:
        """Return the least and the greatest label of a file; None unless all are numbers.

        With `fractions`, also None for whole numbers only, which may be classes.
        """
        rows = self.rows(path, (self.label_column,))
        kinds = label_kinds(row.values[self.label_column] for row in rows if not row.problem)
        return None if fractions and not kinds.fractions else kinds.limits

    def problems(
        self,
        files: Mapping[Split, Path],
        *,
        on_bad_row: Literal["stop", "skip"] = "stop",
        min_rows_per_class: int = 2,
        corpus: str = "text_files",
    ) -> list[str]:
        """Return all reasons to refuse files (`train` first), of which a training gives one.

        `skip` leaves out the check of the rows; see `Corpus` and `UserFiles` for the settings.
        `corpus` is a name in messages.
        """
        problems = list[str]()
        classes = list(self.classes)
        for split, path in files.items():
            with _collect(problems):
                self.check_columns(path, labelled=split != "test")
                if split == "train" and not classes and self.task == "classification":
                    rows = self.count_classes(path)
                    classes = list(rows)
                    with _collect(problems):
                        check_rows(corpus, rows, min_rows_per_class)
                if (classes or self.task == "regression") and on_bad_row == "stop":
                    self._examples(path, classes, split)
        return problems

    def _examples(self, path: Path, classes: Sequence[str], split: str) -> list[Example]:
        meaning, text_columns = ClassLabels(classes), self.text_columns
        numeric = self.task == "regression"

        def parse(values: Mapping[str, Any]) -> tuple[Any, Any]:
            text, value = to_text(values, text_columns), values.get(self.label_column)
            return text, target(value, self.target_range) if numeric else meaning(value)

        test = split == "test"
        unlabelled: Unlabelled = "all or none" if test else "bad"
        columns = (*text_columns, self.label_column)
        return to_examples(
            self.rows(path, columns, (self.label_column,) if test else ()),
            str(path),
            parse=parse,
            label_column=self.label_column,
            on_bad_row="stop",
            unlabelled=unlabelled,
        )


@contextmanager
def _collect(problems: list[str]) -> Iterator[None]:
    """Keep the message of a `DataError`, and continue."""
    try:
        yield
    except DataError as error:
        problems.append(str(error))


class LabelKinds(NamedTuple):
    """The labels of a file.

    Attributes:
        counts: rows of each label, most rows first.
        absent: rows without label.
        several: rows with several labels.
        limits: the least and the greatest label, where all are numbers.
        fractions: True if all are numbers, and some are no whole numbers.
    """

    counts: dict[str, int]
    absent: int
    several: int
    limits: tuple[float, float] | None
    fractions: bool


def label_kinds(labels: Iterable[Any]) -> LabelKinds:
    """Count labels, and find out whether they are numbers."""
    counts: Counter[str | None] = Counter()
    several = 0
    for label in labels:
        try:
            counts[label_text(label)] += 1
        except FileLabelsError:
            several += 1
    absent = counts.pop(None, 0)
    named = {label: rows for label, rows in counts.most_common() if label is not None}
    # In a column of numbers "nan" is a missing one; alone it is not a number.
    spelled = [label for label in named if label.casefold() != "nan"]
    numeric = bool(spelled) and not several and all(map(is_numeric, spelled))
    numbers = list(map(float, spelled)) if numeric else []
    return LabelKinds(
        named,
        absent,
        several,
        (min(numbers), max(numbers)) if numbers else None,
        not all(map(float.is_integer, numbers)),
    )


def is_numeric(text: str) -> bool:
    """Return True for the spelling of a finite number."""
    try:
        # `float` reads "1_000" as 1000.
        return "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


def _are_texts(labels: Sequence[str]) -> bool:
    return sum(len(name.split()) > _WORDS for name in labels) > len(labels) / 2


def _word(name: str) -> str:
    """Return a name as a word of a shell."""
    return shlex.quote(name)
