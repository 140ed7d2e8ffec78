"""The samples of a table or of a data set of the hub: which columns, and what their labels mean."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks.outcome import Sample
from datamodules.sources.column_names import column_names
from datamodules.sources.datasets_hub import load
from datamodules.sources.datasets_hub import rows as hub_rows
from datamodules.sources.readers import Row, read_rows
from text import ClassLabels, FileLabelsError, Text, label_text

log = logging.getLogger(__name__)

PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence_A", "sentence_B"),
    ("text", "text_pair"),
)
SINGLE = ("text", "sentence", "review", "content", "document", "tweet", "query")
LABELS = ("label", "labels", "gold_label", "class", "category", "sentiment", "target")


@dataclass(frozen=True, kw_only=True)
class LabelledTable:
    """Texts with labels as they were read.

    Attributes:
        name: for messages and pages.
        columns: names of the texts.
        rows: place in the table, text and label of each row.
        names: of the classes, where the data set says them.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[int, Text, Any]]
    names: tuple[str, ...] | None = None


def read_table(
    given: str, *, columns: Sequence[str] | None = None, label: str | None = None
) -> LabelledTable:
    """Reads the samples of `hf:ID:SPLIT`, `hf:ID:CONFIG:SPLIT` or a file.

    Args:
        given: the data set or file (.tsv, .csv, .jsonl, .parquet).
        columns: names of the one or two texts; found by usual names if None.
        label: name of the label; found the same way.

    Raises:
        DataError: it cannot be read.
        ValueError: columns that are not there, or that are not found: all of them in one message.
    """
    if not given.startswith("hf:"):
        path = Path(given)
        wanted, gold = _chosen(given, column_names(path), columns, label)
        return _table(given, wanted, gold, read_rows(path, (*wanted, gold)), None)
    parts = given.removeprefix("hf:").split(":")
    if len(parts) not in (2, 3) or not all(parts):
        msg = f"got --dataset {given}, expected hf:ID:SPLIT or hf:ID:CONFIG:SPLIT"
        raise ValueError(msg)
    data = load(parts[0], parts[1] if len(parts) == 3 else None, parts[-1])
    wanted, gold = _chosen(given, data.column_names, columns, label)
    names = getattr(data.features[gold], "names", None)
    found = hub_rows(data, (*wanted, gold))
    return _table(given, wanted, gold, found, None if names is None else tuple(names))


def as_classes(
    table: LabelledTable, classes: Sequence[str], given: Sequence[str] | None = None
) -> list[Sample]:
    """Makes samples whose labels are the classes of a victim; see `text.labels.ClassLabels`.

    The log says what the numbers of the data mean, and how many rows without label are left out.

    Args:
        table: the table.
        classes: of the victim.
        given: `LABEL=CLASS` for each label of the table, or the classes of 0, 1, ...; None if they
            speak for themselves.

    Raises:
        ValueError: labels that are no classes of the victim; all of them in one message.
    """
    meanings = None if given is None else _told(given, classes)
    index = ClassLabels(classes, data_names=table.names or (), meanings=meanings)
    samples, strange, unlabelled = [], dict[str, None](), 0
    for place, text, label in table.rows:
        try:
            found = index(label)
        except FileLabelsError as error:
            msg = f"{table.name}, row {place + 1}: {error}"
            raise ValueError(msg) from error
        except ValueError:
            strange[_shown(label, table.names)] = None
            continue
        if found is None:
            unlabelled += 1
        else:
            samples.append(Sample(sample_id=place, text=text, label=found))
    if strange:
        msg = (
            f"got labels {', '.join([*strange][:5])} in {table.name}, expected the victim's "
            f"classes {', '.join(f'{i} ({name})' for i, name in enumerate(classes))}: say by "
            "--label_names LABEL=CLASS,LABEL=CLASS what each label of the data is"
        )
        raise ValueError(msg)
    if not samples:
        msg = f"got {table.name} without labelled rows, expected some"
        raise ValueError(msg)
    if index.by_number:
        log.info("%s: labels are numbers: %s", table.name, index.legend())
    if unlabelled:
        log.info("%s: %d rows without label left out", table.name, unlabelled)
    return samples


def _told(given: Sequence[str], classes: Sequence[str]) -> dict[str, int]:
    """Returns the classes of the labels that a user has named.

    Raises:
        ValueError: a class that the victim does not have.
    """
    known, meanings = ClassLabels(classes), {}
    for i, one in enumerate(given):
        label, equals, name = one.rpartition("=")
        index = known.find(label_text(name) or "")
        if index is None:
            msg = (
                f"got --label_names {','.join(given)}, expected classes of the victim: "
                f"{', '.join(classes)}"
            )
            raise ValueError(msg)
        meanings[label if equals else str(i)] = index
    return meanings


def _shown(label: Any, names: Sequence[str] | None) -> str:
    number = label if isinstance(label, int) else -1
    if names is not None and 0 <= number < len(names):
        return f"{label} ({names[number]})"
    return f"{label!r:.80}"


def _chosen(
    name: str, there: Sequence[str], columns: Sequence[str] | None, label: str | None
) -> tuple[tuple[str, ...], str]:
    """Returns the columns of the texts and of the label."""
    texts = tuple(columns) if columns else usual_texts(there)
    gold = label or next((one for one in LABELS if one in there), None)
    missing = [one for one in (*(texts or ()), *([gold] if gold else [])) if one not in there]
    if texts and gold and not missing and len(texts) <= 2:
        return texts, gold
    asked = []
    if not texts or len(texts) > 2 or set(missing) & set(texts):
        asked.append("--columns TEXT (or --columns TEXT,TEXT for pairs)")
    if not gold or gold in missing:
        asked.append("--label COLUMN")
    lacks = f", without {', '.join(missing)}" if missing else ""
    msg = (
        f"got {name} with the columns {', '.join(there)}{lacks}, "
        f"expected to be told which are meant: {' and '.join(asked)}"
    )
    raise ValueError(msg)


def usual_texts(there: Sequence[str]) -> tuple[str, ...] | None:
    """Returns those of the columns that texts usually have; None if none or several could be."""
    for pair in PAIRS:
        if set(pair) <= set(there):
            return pair
    found = [one for one in SINGLE if one in there]
    return (found[0],) if len(found) == 1 else None


def _table(
    name: str,
    columns: tuple[str, ...],
    label: str,
    rows: Any,
    names: tuple[str, ...] | None,
) -> LabelledTable:
    found: list[tuple[int, Text, Any]] = []
    place = -1
    row: Row
    for row in rows:
        place += 1
        if row.problem is not None:
            msg = f"{name}, {row.place}: {row.problem}; expected a row with {columns} and {label}"
            raise ValueError(msg)
        texts = tuple(row.values[column] for column in columns)
        if not all(isinstance(text, str) for text in texts):
            msg = f"{name}, {row.place}: got {texts!r:.80}, expected texts in {', '.join(columns)}"
            raise ValueError(msg)
        found.append(
            (place, texts[0] if len(texts) == 1 else (texts[0], texts[1]), row.values[label])
        )
    return LabelledTable(name=name, columns=columns, rows=found, names=names)
