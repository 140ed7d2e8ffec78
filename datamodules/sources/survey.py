"""Logs the content of the splits of a corpus: rows, classes, and texts in two splits."""

import difflib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from datamodules.batching.examples import Example
from datamodules.sources.readers import DataError
from datamodules.sources.rows import Split

if TYPE_CHECKING:  # files are checked without torch
    from text import TaskName

log = logging.getLogger(__name__)

# Classes listed in one line; of more classes, those with most and with fewest rows.
_LISTED = 10
# Similarity from which a name may be a typo (difflib: share of matching characters).
_LIKE = 0.75


def class_rows(
    examples: Sequence[Example], class_names: Sequence[str], task: "TaskName"
) -> dict[str, int]:
    """Count the rows of each class, in the order of the classes.

    In tagging, types are counted (X of B-X and I-X), each once a row; the result is empty for a
    regression and for multiple choice.
    """
    if not any(example.label is not None for example in examples):
        return {}
    if task == "tagging":
        types = [name[2:] for name in class_names]
        counts = Counter(
            kind
            for example in examples
            if isinstance(example.label, tuple)
            for kind in {types[tag] for tag in example.label}
        )
        return {kind: counts[kind] for kind in dict.fromkeys(types) if kind}
    if task != "classification":
        return {}
    labels = Counter(example.label for example in examples)
    return {name: labels[i] for i, name in enumerate(class_names)}


def describe_rows(rows: Mapping[str, int]) -> str:
    """Return at most ten classes with their rows, such as `negative 310, positive 290`."""
    if len(rows) <= _LISTED:
        return ", ".join(f"{name} {n:,}" for name, n in rows.items())
    by_rows = sorted(rows.items(), key=lambda item: -item[1])
    half = _LISTED // 2
    most, fewest = (
        ", ".join(f"{name} {n:,}" for name, n in some) for some in (by_rows[:half], by_rows[-half:])
    )
    return f"{len(rows):,} classes, most rows: {most}; fewest: {fewest}"


def check_rows(corpus: str, rows: Mapping[str, int], least: int) -> None:
    """Raise a DataError if a class has fewer training rows than `least`: its name may be a typo.

    The message has the counts, and similar names.
    """
    few = {name: n for name, n in rows.items() if n < least}
    if not few:
        return
    examples = [
        f"{n} of {name!r}{_suggest(name, rows)}" for name, n in list(few.items())[: _LISTED // 2]
    ]
    more = f" and {len(few) - len(examples):,} more classes" if len(few) > len(examples) else ""
    msg = (
        f"{corpus}: got too few training rows, {', '.join(examples)}{more} "
        f"({describe_rows(rows)}), expected at least {least} of each class: correct the labels, or "
        f"pass `--data.min_rows_per_class {min(few.values())}`"
    )
    raise DataError(msg)


def _suggest(name: str, rows: Mapping[str, int]) -> str:
    """Return a note with a more frequent class of a similar name, if there is one."""
    names = {other.casefold().strip(): other for other, n in rows.items() if n > rows[name]}
    similar = difflib.get_close_matches(name.casefold().strip(), names, n=1, cutoff=_LIKE)
    return f" (a typo of {names[similar[0]]!r}?)" if similar else ""


def log_splits(
    corpus: str,
    splits: Mapping[Split, Sequence[Example]],
    class_names: Sequence[str],
    task: "TaskName",
) -> None:
    """Log rows and classes of each split, names that differ in case alone, and shared texts."""
    lines = []
    for split, examples in splits.items():
        rows = class_rows(examples, class_names, task)
        lines.append(f"{split} {len(examples):,}{f' ({describe_rows(rows)})' if rows else ''}")
    log.info("%s: %s", corpus, "; ".join(lines))
    names: dict[str, str] = {}
    for name in class_names if task == "classification" else ():
        other = names.setdefault(name.casefold(), name)
        if other != name:
            log.warning("%s: classes %r and %r differ in case alone", corpus, other, name)
    # Exact duplicates only; labels may differ.
    trained = {example.text for example in splits["train"]}
    for split, examples in splits.items():
        shared = sum(example.text in trained for example in examples) if split != "train" else 0
        if shared:
            log.warning(
                "%s: %d of %d %s texts (%.1f %%) are training texts, too: a figure on these "
                "says nothing about unseen texts",
                corpus,
                shared,
                len(examples),
                split,
                100 * shared / len(examples),
            )
