"""From rows to labelled examples."""

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from datamodules.sources.readers import DataError, Row
from text import FileLabelsError, Sample
from text.bounded_files import brief

log = logging.getLogger(__name__)

_SHOWN = 5
"""Bad rows named in one message; the rest is counted."""

Label = int | float | tuple[int, ...]
"""A class or a choice by its index, a target, or the index of a tag for each word."""

Unlabelled = Literal["bad", "keep", "all or none", "drop"]
"""The treatment of a row without label: it is bad; kept with None; kept if no row has a label, else
bad; or left out because the corpus is defined without such rows (counted in a message)."""


class Example(NamedTuple):
    """One sample of a corpus.

    Attributes:
        text: a string, a pair, the words of a sentence, or a context with choices.
        label: label of the task (see `Label`); None where the corpus gives none.
        sample_id: position in the split.
    """

    text: Sample
    label: Label | None
    sample_id: int


def target(value: Any, target_range: tuple[float, float]) -> float | None:
    """The target of a regression as it stands in a file: a number, or the digits of one.

    Returns:
        The number; None for an empty field or null, which mark a row without target.

    Raises:
        ValueError: no number, not a finite one, or one out of `target_range`.
    """
    low, high = target_range
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        # What Python takes for a number beyond that is a slip in a file: True, and "1_000".
        sound = not isinstance(value, bool) and "_" not in str(value)
        number = float(value) if sound and isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not low <= number <= high:
        msg = f"got target {brief(value)}, expected a number from {low:g} to {high:g}"
        raise ValueError(msg)
    return number


def checked(value: Any, column: str) -> str:
    """Return a text that is neither empty nor of another type.

    Raises:
        ValueError: it is something else, or empty.
    """
    if not isinstance(value, str):
        msg = f"column {column!r} holds {type(value).__name__}, expected text"
        raise ValueError(msg)
    if not value.strip():
        msg = f"empty text in column {column!r}"
        raise ValueError(msg)
    return value


def fingerprint(examples: Iterable[Example]) -> str:
    """Digest of texts and labels in their order: the same wherever the rows were read from."""
    digest = hashlib.sha256()
    for example in examples:
        # JSON keeps apart what mere joining would not: ("ab", "c") and ("a", "bc").
        digest.update(json.dumps([example.text, example.label]).encode())
    return digest.hexdigest()


def to_examples(
    rows: Iterable[Row],
    source: str,
    *,
    parse: Callable[[Mapping[str, Any]], tuple[Sample, Label | None]],
    label_column: str,
    on_bad_row: Literal["stop", "skip"],
    unlabelled: Unlabelled,
) -> list[Example]:
    """Check every row and make it an example.

    Args:
        rows: as read.
        source: the file (or hub split) named in messages.
        parse: makes a sample and its label of the values of a row; a ValueError says why it cannot.
        label_column: the column of the label, named in messages.
        on_bad_row: raise, or leave bad rows out and say how many.
        unlabelled: what a row without label is.

    Raises:
        DataError: bad rows with `on_bad_row="stop"`; names and indices of classes in one file, or
            several labels in a row; or not a single good row.
    """
    examples: list[Example] = []
    problems: list[tuple[int, str]] = []
    bare: list[tuple[int, str]] = []
    bad = dropped = 0
    for number, row in enumerate(rows):
        try:
            if row.problem is not None:
                raise ValueError(row.problem)
            sample, label = parse(row.values)
            if label is None and unlabelled == "bad":
                msg = f"no label in column {label_column!r}"
                raise ValueError(msg)
        except FileLabelsError as error:
            # Of the file, not of the row: to skip rows would not help.
            msg = f"{source}, {row.place}: {error}"
            raise DataError(msg) from error
        except ValueError as error:
            bad += 1
            if bad <= _SHOWN:
                problems.append((number, f"{source}, {row.place}: {error}"))
            continue
        if label is None and unlabelled == "drop":
            dropped += 1
            continue
        if label is None and len(bare) < _SHOWN:
            bare.append((number, f"{source}, {row.place}: no label in column {label_column!r}"))
        examples.append(Example(sample, label, len(examples)))
    if dropped:
        log.info("%s: %d rows without label left out", source, dropped)
    labelled = [example for example in examples if example.label is not None]
    if unlabelled == "all or none" and 0 < len(labelled) < len(examples):
        without = len(examples) - len(labelled)
        expected = f" ({without:,} of {len(examples):,} rows), expected one in all rows or in none"
        problems = sorted(problems + [(n, place + expected) for n, place in bare])[:_SHOWN]
        bad += without
        examples = [one._replace(sample_id=i) for i, one in enumerate(labelled)]
    if bad:
        _report(source, problems, bad, len(examples), stop=on_bad_row == "stop")
    if not examples:
        msg = f"{source}: got no usable row, expected at least one"
        raise DataError(msg)
    return examples


def _report(
    source: str, problems: list[tuple[int, str]], bad: int, good: int, *, stop: bool
) -> None:
    listing = "\n".join(problem for _, problem in problems)
    listing += f"\n... and {bad - _SHOWN} more" if bad > _SHOWN else ""
    if stop:
        msg = (
            f"got {bad} bad row(s), expected none: correct them, or pass "
            f"`--data.on_bad_row skip` to go on without them\n{listing}"
        )
        raise DataError(msg)
    log.warning("%s: %d bad row(s) skipped of %d\n%s", source, bad, bad + good, listing)
