"""Samples of a table for victims of any task: numbers, several classes, tags, choices."""

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from attacks.outcome import Sample
from attacks.task_goals import Label, VictimTask
from attacks.victims.task_victims import CHOICES
from datamodules.sources.column_names import column_names
from datamodules.sources.structured import read_conll
from datamodules.sources.table_shape import find_shape
from measure.table_samples import LabelledTable, as_classes, parse_label_names, read_table
from text import ClassLabels, Text, label_text
from text.plural import plural

log = logging.getLogger(__name__)

_USUAL: dict[VictimTask, tuple[tuple[tuple[str, ...], str], ...]] = {
    "tagging": ((("tokens",), "tags"), (("words",), "tags")),
    "choice": ((("context", "choices"), "label"), (("ctx", "endings"), "label")),
}
"""Usual names of columns: those of the text, and that of the label."""
SEPARATOR = "|"
"""Between the classes of a text, where the file has no lists."""


def read_task_table(
    source: str, task: VictimTask, *, columns: Sequence[str] | None, label: str | None
) -> LabelledTable:
    """Read a table for a victim; see `read_table`.

    A tagged text is a list of words, or a sentence of a CoNLL file (`.conll`, `.conll.gz`). A
    question with choices is a text and a list of texts.

    Raises:
        DataError: the source is unreadable.
        ValueError: missing columns, or other values than the task has.
    """
    if task == "tagging" and Path(source.removesuffix(".gz")).suffix == ".conll":
        if columns or label:
            msg = f"got --columns or --label for {source}, expected neither: it has no columns"
            raise ValueError(msg)
        return _read_conll(source)
    for texts, gold in _USUAL.get(task, ()):
        # Only names that the file has: otherwise the message of `read_table` lists the columns.
        if columns is None and (table := _read_usual(source, texts, label or gold, task)):
            return table
    return read_table(source, columns=columns, label=label, parse=_PARSERS.get(task))


def _read_usual(
    source: str, texts: Sequence[str], gold: str, task: VictimTask
) -> LabelledTable | None:
    if source.startswith("hf:"):
        return None
    path = Path(source)
    if not {*texts, gold} <= {*column_names(path, find_shape(path))}:
        return None
    return read_table(source, columns=texts, label=gold, parse=_PARSERS[task])


def _read_conll(source: str) -> LabelledTable:
    rows: list[tuple[int, Text, Any]] = []
    for position, row in enumerate(read_conll(Path(source))):
        try:
            if row.problem is not None:
                raise ValueError(row.problem)
            rows.append((position, _join_words([row.values["words"]]), row.values["tags"]))
        except ValueError as error:
            msg = f"{source}, {row.place}: {error}"
            raise ValueError(msg) from error
    return LabelledTable(name=source, columns=("words",), rows=rows)


def _join_words(values: Sequence[Any]) -> Text:
    words = values[0]
    if not isinstance(words, list) or not all(
        isinstance(word, str) and word.split() == [word] for word in words
    ):
        msg = f"got {words!r:.80}, expected a list of words without spaces"
        raise ValueError(msg)
    return " ".join(words)


def _join_choices(values: Sequence[Any]) -> Text:
    context, choices = values if len(values) == 2 else (None, None)
    if not (
        isinstance(context, str)
        and isinstance(choices, list)
        and len(choices) > 1
        and all(isinstance(choice, str) for choice in choices)
    ):
        msg = f"got {values!r:.80}, expected a text, and a list of two or more choices"
        raise ValueError(msg)
    return context, CHOICES.join(" ".join(choice.split()) for choice in choices)


_PARSERS: dict[VictimTask, Callable[[Sequence[Any]], Text]] = {
    "tagging": _join_words,
    "choice": _join_choices,
}


def task_samples(
    table: LabelledTable,
    task: VictimTask,
    classes: Sequence[str],
    label_names: Sequence[str] | None = None,
) -> tuple[list[Sample], list[str]]:
    """Return samples with the labels of a task, and the names of its classes (choices: A, B, ...).

    `table` is that of `read_task_table`, `label_names` are those of `as_classes`.

    Raises:
        ValueError: labels that the task or the victim does not have.
    """
    if task == "choice":
        counts = {str(text[1]).count(CHOICES) + 1 for _, text, _ in table.rows}
        if len(counts) != 1 or max(counts) > len(ascii_uppercase):
            msg = f"got {table.name} with {sorted(counts)} choices, expected as many in each row"
            raise ValueError(msg)
        classes = ascii_uppercase[: counts.pop()]
        return as_classes(table, list(classes), label_names), list(classes)
    if task == "classification":
        return as_classes(table, classes, label_names), list(classes)
    meanings = None if label_names is None else parse_label_names(label_names, classes)
    parse: Callable[[Any, Text], Label | None]
    if task == "multi-label":
        index = ClassLabels(classes, data_names=table.names or (), meanings=meanings)
        parse = lambda value, _: _several(value, index, classes)  # noqa: E731 # as short as it gets
    else:
        if label_names is not None:
            msg = f"got --label_names for a model of {task}, expected it only with classes"
            raise ValueError(msg)
        known = {*classes}
        parse = _number if task == "regression" else lambda value, text: _tags(value, text, known)
    samples, unlabelled = [], 0
    for position, text, value in table.rows:
        try:
            gold = parse(value, text)
        except ValueError as error:
            msg = f"{table.name}, row {position + 1}: {error}"
            raise ValueError(msg) from error
        if gold is None:
            unlabelled += 1
        else:
            samples.append(Sample(sample_id=position, text=text, label=gold))
    if not samples:
        msg = f"got {table.name} without labelled rows, expected some"
        raise ValueError(msg)
    if unlabelled:
        log.info("%s: %s without label left out", table.name, plural(unlabelled, "row"))
    return samples, list(classes)


def _number(value: Any, text: Text) -> float | None:
    del text
    if (label := label_text(value)) is None:
        return None
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        msg = f"got label {value!r:.80}, expected a number: the model is a regression"
        raise ValueError(msg)
    return number


def _several(value: Any, index: ClassLabels, classes: Sequence[str]) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = value if isinstance(value, list) else str(value).split(SEPARATOR)
    found = set()
    for name in names if names != [""] else []:
        try:
            found.add(index(name))
        except ValueError as error:
            msg = (
                f"got label {name!r:.80}, expected a list of the victim's classes, or their names "
                f"with {SEPARATOR} between: {', '.join(classes)}"
            )
            raise ValueError(msg) from error
    # In the order of the classes, as predictions are.
    return tuple(name for number, name in enumerate(classes) if number in found)


def _tags(value: Any, text: Text, known: set[str]) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        msg = f"got tags {value!r:.80}, expected a list of names of tags: the model is a tagger"
        raise ValueError(msg)
    words = str(text).split(" ") if text else []
    if len(value) != len(words):
        msg = f"got {len(value)} tags for {len(words)} words, expected one for each"
        raise ValueError(msg)
    if unknown := sorted({*value} - known):
        msg = f"got tags {', '.join(unknown[:5])}, expected those of the victim: {sorted(known)}"
        raise ValueError(msg)
    return tuple(value)
