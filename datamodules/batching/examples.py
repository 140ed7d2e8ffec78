"""Makes labelled examples of rows."""

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from datamodules.sources.readers import DataError, Row
from text import FileLabelsError
from text.bounded_files import brief
from text.plural import plural

if TYPE_CHECKING:  # files are checked without torch
    from text import Sample, Text

log = logging.getLogger(__name__)

# Bad rows named in one message; the rest is counted.
_SHOWN = 5

Label = int | float | tuple[int, ...]
"""A class or a choice by its index, a target, or the index of a tag for each word."""

Unlabelled = Literal["bad", "keep", "all or none", "drop"]
"""The treatment of a row without label: it is bad; kept with None; kept if no row has a label, else
bad; or dropped, with a message, because the definition of the corpus excludes it."""


class Example(NamedTuple):
    """One sample of a corpus, at a position of its split; the label is None where there is none.

    The text is a string, a pair, the words of a sentence, or a context with choices. The slices
    that it belongs to are those of `TextFiles`, as `column=value`.
    """

    text: "Sample"
    label: Label | None
    sample_id: int
    slices: tuple[str, ...] = ()


def target(value: Any, target_range: tuple[float, float]) -> float | None:
    """Return the target of a regression from its value in a file, a number or a text.

    None for an empty field or null, which mark a row without target.

    Raises:
        ValueError: not a finite number within `target_range`.
    """
    low, high = target_range
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        # Python also accepts True and "1_000" as numbers; in a file these are mistakes.
        sound = not isinstance(value, bool) and "_" not in str(value)
        number = float(value) if sound and isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        # NaN is in no range: the check below refuses it.
        number = math.nan
    if not low <= number <= high:
        msg = f"got target {brief(value)}, expected a number from {low:g} to {high:g}"
        raise ValueError(msg)
    return number


def checked(value: Any, column: str) -> str:
    """Return a text; raise ValueError if it is empty or of another type."""
    if not isinstance(value, str):
        msg = f"column {column!r} holds {type(value).__name__}, expected text"
        raise ValueError(msg)
    if not value.strip():
        msg = f"empty text in column {column!r}"
        raise ValueError(msg)
    return value


def to_text(values: Mapping[str, Any], columns: Sequence[str]) -> "Text":
    """Return the text or pair in one or two columns; see `checked`."""
    if len(columns) == 1:
        return checked(values[columns[0]], columns[0])
    first, second = columns
    return checked(values[first], first), checked(values[second], second)


def fingerprint(examples: Iterable[Example]) -> str:
    """Return a digest of texts and labels in their order, which does not depend on their source."""
    digest = hashlib.sha256()
    for example in examples:
        # JSON separates texts: ("ab", "c") and ("a", "bc") must differ.
        digest.update(json.dumps([example.text, example.label]).encode())
    return digest.hexdigest()


def to_examples(
    rows: Iterable[Row],
    source: str,
    *,
    parse: "Callable[[Mapping[str, Any]], tuple[Sample, Label | None]]",
    label_column: str,
    on_bad_row: Literal["stop", "skip"],
    unlabelled: Unlabelled,
    slices: Sequence[str] = (),
) -> list[Example]:
    """Check every row and make it an example; the source and the column are named in messages.

    `parse` makes a sample and its label of the values of a row, or raises ValueError; `on_bad_row`
    raises, or skips bad rows and logs their number; `slices` are the columns of `Example.slices`.

    Raises:
        DataError: bad rows with `on_bad_row="stop"`; names and indices of classes in one file, or
            several labels in a row; or not a single good row.
    """
    examples: list[Example] = []
    problems, bare = list[tuple[int, str]](), list[tuple[int, str]]()
    bad, dropped, contradiction = 0, 0, ""
    no_label = f"no label in column {label_column!r}"
    for number, row in enumerate(rows):
        try:
            sample, label = _parse_row(row, parse, no_label if unlabelled == "bad" else None)
        except FileLabelsError as error:
            # The file is contradictory, not the row: skipping rows would not help.
            contradiction = contradiction or f"{source}, {row.place}: {error}"
            continue
        except ValueError as error:
            bad += 1
            if bad <= _SHOWN:
                problems.append((number, f"{source}, {row.place}: {error}"))
            continue
        if label is None and unlabelled == "drop":
            dropped += 1
            continue
        if label is None and len(bare) < _SHOWN:
            bare.append((number, f"{source}, {row.place}: {no_label}"))
        names = tuple([_name_slice(column, row.values.get(column)) for column in slices])
        examples.append(Example(sample, label, len(examples), names))
    if dropped:
        log.info("%s: %s without label left out", source, plural(dropped, "row"))
    labelled = [example for example in examples if example.label is not None]
    if unlabelled == "all or none" and 0 < len(labelled) < len(examples):
        without = len(examples) - len(labelled)
        expected = f" ({without:,} of {len(examples):,} rows), expected one in all rows or in none"
        # Rows without label become errors, in the order of the file.
        problems = sorted(problems + [(n, text + expected) for n, text in bare])[:_SHOWN]
        bad += without
        examples = [example._replace(sample_id=i) for i, example in enumerate(labelled)]
    if bad or contradiction:
        stop = on_bad_row == "stop"
        _report(source, contradiction, problems, bad, len(examples), stop=stop)
    if not examples:
        msg = f"{source}: got no usable row, expected at least one"
        raise DataError(msg)
    return examples


def _name_slice(column: str, value: Any) -> str:
    words = "" if value is None else " ".join(str(value).split())
    return f"{column}={words or 'missing'}"


def _parse_row(
    row: Row,
    parse: "Callable[[Mapping[str, Any]], tuple[Sample, Label | None]]",
    no_label: str | None,
) -> "tuple[Sample, Label | None]":
    if row.problem is not None:
        raise ValueError(row.problem)
    sample, label = parse(row.values)
    if label is None and no_label is not None:
        raise ValueError(no_label)
    return sample, label


def _report(
    source: str,
    contradiction: str,
    problems: list[tuple[int, str]],
    bad: int,
    good: int,
    *,
    stop: bool,
) -> None:
    listing = "\n".join(problem for _, problem in problems)
    listing += f"\n... and {bad - _SHOWN} more" if bad > _SHOWN else ""
    messages = [contradiction] if contradiction else []
    if stop and bad:
        messages.append(
            f"got {bad} bad row(s), expected none: correct them, or pass "
            f"`--data.on_bad_row skip` to continue without them\n{listing}"
        )
    if messages:
        raise DataError("\n".join(messages))
    log.warning("%s: %d bad row(s) skipped of %d\n%s", source, bad, bad + good, listing)
