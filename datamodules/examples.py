"""From rows to labelled examples, and from examples to token ids in flat arrays."""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from datamodules.files import brief
from datamodules.readers import DataError, Row
from text import Batch, Encoding, Text, Tokenizer, collate

log = logging.getLogger(__name__)

_SHOWN = 5
"""Bad rows named in one message; the rest is counted."""


class Example(NamedTuple):
    """One text of a corpus.

    Attributes:
        text: a string, or a pair.
        label: class index, or None where the corpus gives none.
        sample_id: its position in the split.
    """

    text: Text
    label: int | None
    sample_id: int


def label_index(value: Any, class_names: Sequence[str]) -> int | None:
    """The class of a label as it stands in a file: a class name, or the index of one.

    Returns:
        The index; None for -1, an empty field or null, which mark a row without label.

    Raises:
        ValueError: no such class.
    """
    text = "" if value is None else str(value).strip()
    if text in class_names:
        return class_names.index(text)
    if text in {"", "-1"}:
        return None
    # An index is read as one only where no class is itself named by a number.
    numbered = any(name.lstrip("-").isdigit() for name in class_names)
    if not numbered and text.isascii() and text.isdigit() and int(text) < len(class_names):
        return int(text)
    msg = f"unknown label {brief(text)}, expected one of {brief(list(class_names))}"
    if not numbered:
        msg += f" or 0 ... {len(class_names) - 1}"
    raise ValueError(msg)


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
    text_columns: Sequence[str],
    label_column: str,
    class_names: Sequence[str],
    on_bad_row: Literal["stop", "skip"],
    unlabelled: Literal["bad", "keep", "drop"],
) -> list[Example]:
    """Check every row and make it an example.

    Args:
        rows: as read.
        source: the file (or hub split) named in messages.
        text_columns: one column, or two for pairs.
        label_column: the column of the label.
        class_names: see `label_index`.
        on_bad_row: raise, or leave bad rows out and say how many.
        unlabelled: what a row without label is: a bad row, kept with None, or left out because the
            corpus is defined without such rows (counted in a message).

    Raises:
        DataError: bad rows with `on_bad_row="stop"`, or not a single good one.
    """
    examples: list[Example] = []
    problems: list[str] = []
    bad = dropped = 0
    for row in rows:
        try:
            if row.problem is not None:
                raise ValueError(row.problem)
            texts = [_checked(row.values[column], column) for column in text_columns]
            label = label_index(row.values[label_column], class_names)
            if label is None and unlabelled == "bad":
                msg = f"no label in column {label_column!r}"
                raise ValueError(msg)
        except ValueError as error:
            bad += 1
            if bad <= _SHOWN:
                problems.append(f"{source}, line {row.line}: {error}")
            continue
        if label is None and unlabelled == "drop":
            dropped += 1
            continue
        text: Text = texts[0] if len(texts) == 1 else (texts[0], texts[1])
        examples.append(Example(text, label, len(examples)))
    if dropped:
        log.info("%s: %d rows without label left out", source, dropped)
    if bad:
        listing = "\n".join(problems) + (f"\n... and {bad - _SHOWN} more" if bad > _SHOWN else "")
        if on_bad_row == "stop":
            msg = (
                f"got {bad} bad row(s), expected none: correct them, or pass "
                f"`--data.on_bad_row skip` to go on without them\n{listing}"
            )
            raise DataError(msg)
        log.warning(
            "%s: %d bad row(s) skipped of %d\n%s", source, bad, bad + len(examples), listing
        )
    if not examples:
        msg = f"{source}: got no usable row, expected at least one"
        raise DataError(msg)
    return examples


def _checked(value: Any, column: str) -> str:
    if not isinstance(value, str):
        msg = f"column {column!r} holds {type(value).__name__}, expected text"
        raise ValueError(msg)
    if not value.strip():
        msg = f"empty text in column {column!r}"
        raise ValueError(msg)
    return value


class EncodedTexts(Dataset[Batch]):
    """The encoded texts of a split; an index is the list of the samples of one batch.

    Token ids lie in one flat array: a tenth of the memory of Python lists, and workers share it
    instead of copying it.

    Args:
        examples: at least one.
        tokenizer: encodes them, all at once but in chunks.
        pairs: whether batches carry segment ids.
    """

    _CHUNK = 4096

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, *, pairs: bool) -> None:
        ids: list[NDArray[np.int32]] = []
        segments: list[NDArray[np.int8]] = []
        lengths: list[int] = []
        self.truncated = 0
        for start in range(0, len(examples), self._CHUNK):
            coded = tokenizer.encode([e.text for e in examples[start : start + self._CHUNK]])
            lengths.extend(len(encoding.input_ids) for encoding in coded)
            self.truncated += sum(encoding.truncated for encoding in coded)
            ids.append(np.array([i for e in coded for i in e.input_ids], dtype=np.int32))
            if pairs:
                segments.append(np.array([i for e in coded for i in e.segment_ids], dtype=np.int8))
        self.lengths = np.array(lengths, dtype=np.int64)
        self.pairs = pairs
        self._pad_id = tokenizer.pad_id
        self._ids = np.concatenate(ids)
        self._segments = np.concatenate(segments) if pairs else None
        self._ends = np.cumsum(self.lengths)
        self._sample_ids = np.array([example.sample_id for example in examples], dtype=np.int64)
        labels = [example.label for example in examples]
        self._labels = None if None in labels else np.array(labels, dtype=np.int64)

    @property
    def labelled(self) -> bool:
        """Whether every text has a label."""
        return self._labels is not None

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: Sequence[int]) -> Batch:
        """The batch of these samples, padded to the longest."""
        encodings = []
        for i in index:
            span = slice(self._ends[i] - self.lengths[i], self._ends[i])
            part = [] if self._segments is None else self._segments[span].tolist()
            encodings.append(Encoding(self._ids[span].tolist(), part))
        return collate(
            encodings,
            pad_id=self._pad_id,
            sample_ids=self._sample_ids[index].tolist(),
            labels=None if self._labels is None else self._labels[index].tolist(),
            pairs=self.pairs,
        )
