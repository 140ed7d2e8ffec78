"""Makes samples of texts with their classes, and of rows of data sets."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attacks.outcome import Sample
from text import Text

SampleLike = Sample | tuple[Text, int] | Mapping[str, Any]
"""A sample, a text (or pair) with its class, or a row of a data set."""
_NAMES = ("text", "text_pair")


def as_samples(
    rows: Iterable[SampleLike], columns: Sequence[str] | None = None
) -> tuple[list[Sample], Sequence[str]]:
    """Number samples as they come; a `Sample` keeps its number.

    Args:
        rows: see `SampleLike`. A row of a data set has its class as `label`.
        columns: names of the texts of a row; `text`, and of pairs `text_pair`, if None.

    Returns:
        The samples, and the names of their texts.

    Raises:
        ValueError: no samples, two with the same number, or an invalid sample.
    """
    if isinstance(rows, str | Mapping):
        msg = f"got one {type(rows).__name__} as samples, expected a list of texts with classes"
        raise ValueError(msg)
    samples = [_sample(number, row, columns) for number, row in enumerate(rows)]
    if not samples:
        msg = "got no samples, expected texts with their classes"
        raise ValueError(msg)
    if len({sample.sample_id for sample in samples}) < len(samples):
        msg = "got samples with the same sample_id, expected one of its own for each"
        raise ValueError(msg)
    counts = {1 if isinstance(sample.text, str) else 2 for sample in samples}
    if len(counts) > 1:
        msg = "got single texts and pairs, expected samples of one kind: attack them apart"
        raise ValueError(msg)
    count = counts.pop()
    names = _NAMES[:count] if columns is None else columns
    if len(names) != count:
        msg = f"got columns {list(names)} for samples of {count} text(s), expected a name for each"
        raise ValueError(msg)
    return samples, names


def _sample(number: int, row: Any, columns: Sequence[str] | None) -> Sample:
    if isinstance(row, Sample):
        return row
    if isinstance(row, Mapping):
        text, label = _row(number, row, columns)
    elif isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 2:
        text, label = row
    else:
        msg = (
            f"got {row!r:.80} as sample {number}, expected (text, class), a row with text and "
            "label, or attacks.Sample; the texts of a pair stand together: ((text, text), class)"
        )
        raise ValueError(msg)
    if isinstance(text, list):
        text = tuple(text)
    with suppress(TypeError):  # Sample refuses other labels
        # NumPy integers and one-element tensors are labels as well.
        label = operator.index(label)
    return Sample(sample_id=number, text=text, label=label)


def _row(number: int, row: Mapping[str, Any], columns: Sequence[str] | None) -> tuple[Any, Any]:
    """Return the text and the class of a row of a data set."""
    # A row with `text_pair` is a pair.
    names = columns if columns is not None else _NAMES[: 2 if _NAMES[1] in row else 1]
    if missing := [name for name in (*names, "label") if name not in row]:
        msg = (
            f"got row {number} with {', '.join(row)}, expected {' and '.join(missing)}, too: name "
            'its texts, such as columns=("premise", "hypothesis"), and its class label'
        )
        raise ValueError(msg)
    texts = tuple(row[name] for name in names)
    return (texts[0] if len(texts) == 1 else texts), row["label"]
