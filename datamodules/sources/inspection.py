"""All about files of labelled texts, before anything is trained: see `inspect_files`."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import median_low
from typing import Any, Literal, NamedTuple

from datamodules.sources.column_names import choose_columns, column_names, header_problem
from datamodules.sources.likely_mistakes import label_mistakes, row_hints, text_mistakes
from datamodules.sources.readers import DataError
from datamodules.sources.rows import Row, Split
from datamodules.sources.structured import numbered, read_conll
from datamodules.sources.table_shape import TableShape
from datamodules.sources.text_table import TextTable, label_kinds

DataTask = Literal["classes", "numbers", "several labels", "tags", "no labels"]
_FIRST = 200
"""Rows that hint at the columns."""
_VALIDATION = re.compile(r"(?:^|[^a-z])(?:dev|val|valid|validation)(?:[^a-z]|$)")
_TEST = re.compile(r"(?:^|[^a-z])test(?:[^a-z]|$)")
_TAG = re.compile(r"O|[BI]-\S+")
_CONLL = (".conll", ".bio", ".iob")


class LengthRange(NamedTuple):
    """The least, the median and the greatest of some numbers."""

    least: int
    median: int
    greatest: int


@dataclass(frozen=True, kw_only=True)
class FileInspection:
    """One file.

    Attributes:
        file: its path.
        split: what it is for.
        shape: format, separator and encoding; None if it cannot be read.
        columns: names of all columns.
        text_columns: the column of the text, or the two of pairs.
        label_column: None if no column looks like labels.
        task: of the labels.
        rows: number of rows, unreadable ones included.
        labels: rows of each label, or of each type of tags, most rows first; empty for numbers.
        unlabelled: readable rows without label.
        target_range: least and greatest label, where labels are numbers.
        words: of the texts, between spaces.
        characters: of the texts.
        duplicates: rows whose text occurs in an earlier row, but for case and spaces.
        contradictions: those of them that have another label there.
        mistakes: likely mistakes, which a training would not refuse.
    """

    file: str
    split: Split
    shape: TableShape | None = None
    columns: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    label_column: str | None = None
    task: DataTask = "no labels"
    rows: int = 0
    labels: Mapping[str, int] = field(default_factory=dict)
    unlabelled: int = 0
    target_range: tuple[float, float] | None = None
    words: LengthRange | None = None
    characters: LengthRange | None = None
    duplicates: int = 0
    contradictions: int = 0
    mistakes: tuple[str, ...] = ()


class Leak(NamedTuple):
    """The number of texts of a file that an earlier one has, but for case and spaces.

    `first` is the number of the first of these rows, from 1.
    """

    file: str
    earlier: str
    texts: int
    first: int


class DataInspection(NamedTuple):
    """The files of one corpus.

    Attributes:
        files: each file.
        leaks: texts in two of them.
        problems: the reasons for which a training would stop.
        table: the settings with which they are read; None for tags.
    """

    files: list[FileInspection]
    leaks: list[Leak]
    problems: list[str]
    table: TextTable | None


def inspect_files(paths: Sequence[Path], settings: Mapping[str, Any]) -> DataInspection:
    """Inspect the files of one corpus, with the fields of `TextTable` that the user has set.

    The first file is for training; the others are named after their split, or validation and test
    in this order. Columns that are not set are chosen.

    Raises:
        ValueError: a wrong separator or encoding.
    """
    splits = assign_splits(paths)
    files, texts = list[FileInspection](), dict[str, list[str]]()
    table: TextTable = _StoredTable(**settings)
    if _has_tags(paths[0]):
        inspected = [_inspect_tags(path, split) for split, path in splits.items()]
        texts = {file.file: keys for file, _, keys in inspected}
        problems = [problem for _, own, _ in inspected for problem in own]
        return DataInspection([file for file, *_ in inspected], _leaks(texts), problems, None)
    problems, unchosen, headless = list[str](), True, False
    for path in paths:
        try:
            # The first file that can be read decides.
            table, unchosen = _choose(path, table, settings) if unchosen else table, False
            shape = table.shape(path)
            if "text_column" not in settings and shape.format == "table":
                names = column_names(path, shape)
                samples = list(islice(table.samples(path, names), _FIRST))
                if problem := header_problem(path, names, samples, shape.separator):
                    problems.append(problem)
                    headless |= table.text_column in names
        except DataError as error:
            problems.append(str(error))
    for split, path in splits.items():
        try:
            file, keys = _inspect_table(path, split, table)
        except DataError:  # the check of the table names it
            file, keys = FileInspection(file=str(path), split=split), []
        files.append(file)
        texts[str(path)] = keys
    task, limits = files[0].task, [file.target_range for file in files if file.target_range]
    if task == "numbers" and limits:
        bounds = min(low for low, _ in limits), max(high for _, high in limits)
        table = replace(table, task="regression", target_range=bounds)
    if headless:  # the columns of the line that the user is asked to add
        table = replace(table, text_column="text", label_column="label")
    if not problems:
        problems = table.problems(splits, corpus=paths[0].stem)
    return DataInspection(files, _leaks(texts), problems, table)


@dataclass(frozen=True, kw_only=True)
class _StoredTable(TextTable):
    """A table that keeps the columns and rows of each file that it has read to the end."""

    stored: dict[Path, tuple[list[str | None], list[Row]]] = field(
        default_factory=dict, compare=False
    )

    def rows(
        self, path: Path, columns: Sequence[str], optional: Collection[str] = ()
    ) -> Iterator[Row]:
        """Yield the rows of a file; they may have more columns."""
        names, rows = self.stored.get(path, ([None], []))
        # In JSON, a row without one of the columns has a problem: only the same ones will do.
        same = names == list(columns) and not optional
        if same or (self.shape(path).format == "table" and {*columns} <= {*names}):
            yield from rows
            return
        rows = []
        for row in super().rows(path, columns, optional):
            rows.append(row)
            yield row
        # Only reached when the caller has read all rows: a part of a file is not stored.
        if not optional:
            self.stored.setdefault(path, (list(columns), rows))


def assign_splits(paths: Sequence[Path]) -> dict[Split, Path]:
    """Return the split of each file.

    Raises:
        ValueError: more than three files, or two of one split.
    """
    splits: dict[Split, Path] = {"train": paths[0]}
    # A single further file is for tests; of two, the first validates.
    free: list[Split] = ["validation", "test"] if len(paths) > 2 else ["test", "validation"]
    for path in paths[1:]:
        name = path.name.lower()
        usual = [s for s, pattern in _PATTERNS.items() if pattern.search(name) and s not in splits]
        open_splits = [split for split in free if split not in splits]
        if not open_splits:
            msg = f"got {len(paths)} files, expected one to train, one to validate and one to test"
            raise ValueError(msg)
        splits[(usual or open_splits)[0]] = path
    return splits


_PATTERNS: dict[Split, re.Pattern[str]] = {"validation": _VALIDATION, "test": _TEST}


def _choose(path: Path, table: TextTable, settings: Mapping[str, Any]) -> TextTable:
    """Return the table with the likely columns, where the usual names do not occur."""
    names = column_names(path, table.shape(path))
    likely = choose_columns(names, list(islice(table.samples(path, names), _FIRST)))
    chosen: dict[str, Any] = {}
    if "text_column" not in settings:
        # A pair wins over a column of the usual name, as `text` may be the first of the two.
        chosen["text_column"] = likely.text or table.text_column
        if "text_pair_column" not in settings:
            chosen["text_pair_column"] = likely.pair
    if "label_column" not in settings and likely.label is not None:
        chosen["label_column"] = likely.label
    return replace(table, **chosen)


def _inspect_table(path: Path, split: Split, table: TextTable) -> tuple[FileInspection, list[str]]:
    """Return the inspection of a table, and the key of each text."""
    shape = table.shape(path)
    names, text_columns = column_names(path, shape), table.text_columns
    file = FileInspection(file=str(path), split=split, shape=shape, columns=tuple(names))
    if {*text_columns} - {*names}:
        return file, []
    has_labels = table.label_column in names
    columns = [*text_columns, *([table.label_column] if has_labels else [])]
    labels, texts, keys = list[Any](), list[str](), list[str]()
    lengths, problems = list[int](), list[str]()
    for _, values, problem, _ in table.rows(path, columns):
        if problem is not None:
            problems.append(problem)
            continue
        labels.append(values.get(table.label_column))
        key = ""
        for column in text_columns:
            text = str(values[column] or "")
            if words := text.casefold().split():
                texts.append(text)
                lengths.append(len(words))
                key += f" {' '.join(words)}" if key else " ".join(words)
        keys.append(key)
    kinds = label_kinds(labels)
    task: DataTask = "no labels" if not kinds.counts else "classes"
    task = "several labels" if kinds.several else "numbers" if kinds.fractions else task
    if table.task == "regression" and task == "classes":
        task = "numbers"
    mistakes = row_hints(problems) + text_mistakes(texts)
    if task == "classes" and split == "train" and len(kinds.counts) > 1:
        mistakes += label_mistakes(kinds.counts)
    duplicates, contradictions = _duplicates(keys, labels)
    return replace(
        file,
        text_columns=text_columns,
        label_column=table.label_column if has_labels else None,
        task=task,
        rows=len(labels) + len(problems),
        labels={} if task in ("numbers", "several labels") else kinds.counts,
        unlabelled=kinds.absent if has_labels else len(labels),
        target_range=kinds.limits if task == "numbers" else None,
        words=_length_range(lengths),
        characters=_length_range(list(map(len, texts))),
        duplicates=duplicates,
        contradictions=contradictions,
        mistakes=tuple(mistakes),
    ), keys


def _has_tags(path: Path) -> bool:
    """Return True for a file of words with tags: by its ending or its first lines."""
    if path.name.removesuffix(".gz").endswith(_CONLL):
        return True
    if path.suffix != ".txt":
        return False
    try:
        lines = [
            raw.decode("utf-8", "replace").split() for _, raw in islice(numbered(path), _FIRST)
        ]
    except DataError:
        return False
    words = [fields for fields in lines if fields]
    # Empty lines part the sentences of such a file: without any it is another kind of file.
    return len(words) < len(lines) and all(
        len(fields) == 2 and _TAG.fullmatch(fields[1]) for fields in words
    )


def _inspect_tags(path: Path, split: Split) -> tuple[FileInspection, list[str], list[str]]:
    """Return the inspection of a file of tagged sentences, its problems, and its keys."""
    file = FileInspection(file=str(path), split=split, task="tags")
    types: Counter[str] = Counter()
    sentences, problems = list[tuple[str, ...]](), list[str]()
    rows = unlabelled = 0
    try:
        for row in read_conll(path):
            rows += 1
            if row.problem is not None:
                problems.append(f"{path}, {row.place}: {row.problem}")
                continue
            sentences.append(tuple(row.values["words"]))
            tags = row.values["tags"]
            unlabelled += tags is None
            types.update({tag[2:] for tag in tags or ()} - {""})
    except DataError as error:
        return file, [str(error)], []
    messages = problems[:5] + ([f"... and {len(problems) - 5} more"] if len(problems) > 5 else [])
    if not types and split == "train":
        messages.append(f"{path}: got no tag but O, expected tags B-<type> and I-<type>")
    keys = [_key(" ".join(words)) for words in sentences]
    return (
        replace(
            file,
            columns=("word", "tag"),
            text_columns=("word",),
            label_column="tag",
            rows=rows,
            labels=dict(types.most_common()),
            unlabelled=unlabelled,
            words=_length_range([len(words) for words in sentences]),
            characters=_length_range([len(" ".join(words)) for words in sentences]),
            duplicates=_duplicates(keys, [None] * len(keys))[0],
        ),
        messages,
        keys,
    )


def _key(text: str) -> str:
    return " ".join(text.casefold().split())


def _length_range(numbers: Sequence[int]) -> LengthRange | None:
    return LengthRange(min(numbers), median_low(numbers), max(numbers)) if numbers else None


def _duplicates(keys: Sequence[str], labels: Sequence[Any]) -> tuple[int, int]:
    """Return the number of texts that have occurred before, and of those with another label."""
    first: dict[str, str] = {}
    duplicates = contradictions = 0
    for key, label in zip(keys, map(str, labels), strict=True):
        if not key:
            continue
        if key in first:
            duplicates += 1
            contradictions += first[key] != label
        else:
            first[key] = label
    return duplicates, contradictions


def _leaks(texts: Mapping[str, Sequence[str]]) -> list[Leak]:
    """Return the texts that occur in two files."""
    leaks = []
    names = list(texts)
    for i, name in enumerate(names):
        for earlier in names[:i]:
            # Empty texts are equal in any two files: no leak.
            keys = {*texts[earlier]} - {""}
            shared = [row for row, key in enumerate(texts[name], 1) if key in keys]
            if shared:
                leaks.append(Leak(name, earlier, len(shared), shared[0]))
    return leaks
