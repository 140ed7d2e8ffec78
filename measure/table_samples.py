"""Read the samples of a table or of a data set of the hub, by columns and label names."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attacks.outcome import Sample
from datamodules.sources.column_names import LABELS, column_names, usual_texts
from datamodules.sources.datasets_hub import load
from datamodules.sources.datasets_hub import rows as hub_rows
from datamodules.sources.readers import Row, read_rows
from datamodules.sources.table_shape import find_shape
from text import ClassLabels, FileLabelsError, Text, label_text
from text.plural import plural

log = logging.getLogger(__name__)

TextParser = Callable[[Sequence[Any]], Text]


@dataclass(frozen=True, kw_only=True)
class LabelledTable:
    """Texts with their labels, unchanged.

    Attributes:
        name: name in messages and pages.
        columns: names of the texts.
        rows: position in the table, text and label of each row.
        names: names of the classes, if the data set has them.
        groups: value of the column of groups by position; empty without such a column.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[int, Text, Any]]
    names: tuple[str, ...] | None = None
    groups: Mapping[int, str] = field(default_factory=dict)


def read_table(
    source: str,
    *,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    group: str | None = None,
    parse: TextParser | None = None,
) -> LabelledTable:
    """Read the samples of `hf:ID:SPLIT`, `hf:ID:CONFIG:SPLIT` or a file, see `find_shape`.

    `columns` are those of the one or two texts; by default, they and the label have usual names.
    `group` names a column that groups the rows. `parse` makes the text of a row of its columns,
    which may be lists, and raises ValueError for others; without it, they are strings.

    Raises:
        DataError: the source is unreadable.
        ValueError: columns that are missing or ambiguous, all in one message.
    """
    further = () if group is None else (group,)
    if not source.startswith("hf:"):
        path = Path(source)
        shape = find_shape(path)
        available = column_names(path, shape)
        texts, gold = _choose_columns(source, available, columns, label)
        _check_group(source, available, group)
        rows = read_rows(path, (*texts, gold, *further), shape=shape)
        return _table(source, texts, gold, rows, None, group=group, parse=parse)
    parts = source.removeprefix("hf:").split(":")
    if len(parts) not in (2, 3) or not all(parts):
        msg = f"got --dataset {source}, expected hf:ID:SPLIT or hf:ID:CONFIG:SPLIT"
        raise ValueError(msg)
    data = load(parts[0], parts[1] if len(parts) == 3 else None, parts[-1])
    texts, gold = _choose_columns(source, data.column_names, columns, label)
    _check_group(source, data.column_names, group)
    names = getattr(data.features[gold], "names", None)
    rows = hub_rows(data, (*texts, gold, *further))
    return _table(
        source, texts, gold, rows, None if names is None else tuple(names), group=group, parse=parse
    )


def as_classes(
    table: LabelledTable, classes: Sequence[str], label_names: Sequence[str] | None = None
) -> list[Sample]:
    """Return samples with the classes of a victim as labels; see `text.labels.ClassLabels`.

    The log has the classes of numeric labels, and the number of rows without label. `label_names`
    has `LABEL=CLASS` for each label of the table, or the classes of 0, 1, ...; None if the labels
    are classes.

    Raises:
        ValueError: labels that are not classes of the victim, all in one message.
    """
    meanings = None if label_names is None else parse_label_names(label_names, classes)
    index = ClassLabels(classes, data_names=table.names or (), meanings=meanings)
    samples, strange, unlabelled = [], dict[str, None](), 0
    for position, text, label in table.rows:
        try:
            label_index = index(label)
        except FileLabelsError as error:
            msg = f"{table.name}, row {position + 1}: {error}"
            raise ValueError(msg) from error
        except ValueError:
            strange[_quote(label, table.names)] = None  # one message for all labels
            continue
        if label_index is None:
            unlabelled += 1
        else:
            samples.append(Sample(sample_id=position, text=text, label=label_index))
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
        log.info("%s: %s without label left out", table.name, plural(unlabelled, "row"))
    return samples


def parse_label_names(label_names: Sequence[str], classes: Sequence[str]) -> dict[str, int]:
    """Return the index of the class of each label in `--label_names`, or raise ValueError."""
    class_index, meanings = ClassLabels(classes), {}
    for i, entry in enumerate(label_names):
        # The last "=": a label may have one itself. Without any, the position is the label.
        label, equals, name = entry.rpartition("=")
        index = class_index.find(label_text(name) or "")
        if index is None:
            msg = (
                f"got --label_names {','.join(label_names)}, expected classes of the victim: "
                f"{', '.join(classes)}"
            )
            raise ValueError(msg)
        meanings[label if equals else str(i)] = index
    return meanings


def _quote(label: Any, names: Sequence[str] | None) -> str:
    # The hub has integer labels with names; a file may have any value.
    number = label if isinstance(label, int) else -1
    if names is not None and 0 <= number < len(names):
        return f"{label} ({names[number]})"
    return f"{label!r:.80}"


def _choose_columns(
    name: str, available: Sequence[str], columns: Sequence[str] | None, label: str | None
) -> tuple[tuple[str, ...], str]:
    """Return the columns of the texts, and the column of the label."""
    texts = tuple(columns) if columns else usual_texts(available)
    gold = label or next((column for column in LABELS if column in available), None)
    missing = [
        column for column in (*(texts or ()), *([gold] if gold else [])) if column not in available
    ]
    if texts and gold and not missing and len(texts) <= 2:
        return texts, gold
    if not any(available):
        msg = f"got {name}, which is empty, expected the names of columns, then texts with labels"
        raise ValueError(msg)
    options = []
    if not texts or len(texts) > 2 or set(missing) & set(texts):
        options.append("--columns TEXT (or --columns TEXT,TEXT for pairs)")
    if not gold or gold in missing:
        options.append("--label COLUMN")
    lacks = f", without {', '.join(missing)}" if missing else ""
    msg = (
        f"got {name} with the columns {', '.join(available)}{lacks}, "
        f"expected to be told which are meant: {' and '.join(options)}"
    )
    raise ValueError(msg)


def _check_group(name: str, available: Sequence[str], group: str | None) -> None:
    if group is not None and group not in available:
        msg = f"got {name} with the columns {', '.join(available)}, expected {group} as well"
        raise ValueError(msg)


def _table(
    name: str,
    columns: tuple[str, ...],
    label: str,
    rows: Any,
    names: tuple[str, ...] | None,
    *,
    group: str | None,
    parse: TextParser | None,
) -> LabelledTable:
    labelled: list[tuple[int, Text, Any]] = []
    groups: dict[int, str] = {}
    row: Row
    for position, row in enumerate(rows):
        if row.problem is not None:
            msg = f"{name}, {row.place}: {row.problem}; expected a row with {columns} and {label}"
            raise ValueError(msg)
        texts = tuple(row.values[column] for column in columns)
        if parse is not None:
            try:
                text = parse(texts)
            except ValueError as error:
                msg = f"{name}, {row.place}: {error} in {', '.join(columns)}"
                raise ValueError(msg) from error
        elif not all(isinstance(text, str) for text in texts):
            msg = f"{name}, {row.place}: got {texts!r:.80}, expected texts in {', '.join(columns)}"
            raise ValueError(msg)
        else:
            text = texts[0] if len(texts) == 1 else (texts[0], texts[1])
        labelled.append((position, text, row.values[label]))
        if group is not None:
            if (value := label_text(row.values[group])) is None:
                msg = f"{name}, {row.place}: got no value in the column {group}, expected one"
                raise ValueError(msg)
            groups[position] = value
    return LabelledTable(name=name, columns=columns, rows=labelled, names=names, groups=groups)
