"""Encodes examples as token ids in flat arrays, and makes batches of these."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from datamodules.batching.examples import Example
from text import IGNORED, Batch, Choices, Encoding, Text, Tokenizer, Words, collate


class EncodedTexts(Dataset[Batch]):
    """The encoded samples of a split; an index is the list of the samples of one batch.

    Token ids are in one flat array: a tenth of the memory of Python lists, and worker processes
    share it instead of copying it.

    Args:
        examples: examples of the same task, at least one.
        tokenizer: encodes them, in chunks.
        pairs: True if batches carry segment ids.
        choices: rows of each sample; 1 except in multiple choice.

    Attributes:
        lengths: tokens of each sample, of its longest row where it has several.
        truncated: samples that were cut to the tokenizer's `max_length`.
        words: number of words of all samples, in tagging.
        words_cut: words among them that were cut off. Batches carry their tags as `cut_tags`.
    """

    _CHUNK = 4096

    def __init__(
        self, examples: Sequence[Example], tokenizer: Tokenizer, *, pairs: bool, choices: int = 1
    ) -> None:
        ids: list[NDArray[np.int32]] = []
        segments: list[NDArray[np.int8]] = []
        tags: list[NDArray[np.int32]] = []
        self._cut_tags: dict[int, tuple[int, ...]] = {}
        lengths: list[int] = []
        self.choices = choices
        self.truncated = self.words = self.words_cut = 0
        tagged = all(isinstance(example.label, tuple) for example in examples)
        for start in range(0, len(examples), self._CHUNK):
            chunk = examples[start : start + self._CHUNK]
            coded, starts = _encode(chunk, tokenizer)
            lengths.extend(len(encoding.input_ids) for encoding in coded)
            cut = [encoding.truncated for encoding in coded]
            # A sample is truncated if any of its choices is.
            self.truncated += sum(any(cut[i : i + choices]) for i in range(0, len(cut), choices))
            # One array for all texts: lists of Python numbers would take several times the memory.
            ids.append(np.array([i for e in coded for i in e.input_ids], dtype=np.int32))
            if pairs:
                segments.append(np.array([i for e in coded for i in e.segment_ids], dtype=np.int8))
            if starts is not None:
                self.words += sum(len(e.text.words) for e in chunk if isinstance(e.text, Words))
                # Words without a first token; their total is added below.
                self.words_cut -= sum(map(len, starts))
                if tagged:
                    tags.append(_tags(chunk, coded, starts))
                    self._cut_tags |= _cut_tags(chunk, starts, first=start)
        self.words_cut += self.words
        rows = np.array(lengths, dtype=np.int64)
        self.lengths = rows.reshape(-1, choices).max(axis=1)
        self.pairs = pairs
        self._pad_id = tokenizer.pad_id
        self._ids = np.concatenate(ids)
        self._segments = np.concatenate(segments) if pairs else None
        self._tags = np.concatenate(tags) if tags else None
        self._ends = np.cumsum(rows)
        self._starts = self._ends - rows
        self._sample_ids = np.array([example.sample_id for example in examples], dtype=np.int64)
        labels = [example.label for example in examples]
        # One type for all labels: integers among targets become floats.
        self._labels = None if tags or None in labels else np.array(labels)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: Sequence[int]) -> Batch:
        """Return the batch of these samples, padded to the longest."""
        encodings: list[Encoding] = []
        tags: list[list[int]] = []
        for sample in index:
            for row in range(sample * self.choices, (sample + 1) * self.choices):
                span = slice(self._starts[row], self._ends[row])
                part = [] if self._segments is None else self._segments[span].tolist()
                encodings.append(Encoding(self._ids[span].tolist(), part))
                if self._tags is not None:
                    tags.append(self._tags[span].tolist())
        return collate(
            encodings,
            pad_id=self._pad_id,
            sample_ids=self._sample_ids[index].tolist(),
            labels=tags or (None if self._labels is None else self._labels[index].tolist()),
            pairs=self.pairs,
            choices=self.choices,
            cut_tags=[self._cut_tags.get(sample, ()) for sample in index],
        )


def _encode(
    examples: Sequence[Example], tokenizer: Tokenizer
) -> tuple[list[Encoding], list[tuple[int, ...]] | None]:
    """Return the rows of all samples; for sentences also the positions of their words."""
    texts = [example.text for example in examples]
    sentences = [text for text in texts if isinstance(text, Words)]
    if sentences:
        coded = tokenizer.encode_words(sentences)
        return [sentence.encoding for sentence in coded], [sentence.starts for sentence in coded]
    rows: list[Text] = []
    for text in texts:
        if isinstance(text, Choices):
            rows.extend(text.pairs)
        elif not isinstance(text, Words):
            rows.append(text)
    return tokenizer.encode(rows), None


def _tags(
    examples: Sequence[Example], coded: Sequence[Encoding], starts: Sequence[tuple[int, ...]]
) -> NDArray[np.int32]:
    """Return the tag at the first token of each word that was not cut off, `IGNORED` elsewhere."""
    rows = [np.full(len(encoding.input_ids), IGNORED, dtype=np.int32) for encoding in coded]
    for row, example, positions in zip(rows, examples, starts, strict=True):
        if isinstance(example.label, tuple):
            row[list(positions)] = example.label[: len(positions)]
    return np.concatenate(rows)


def _cut_tags(
    examples: Sequence[Example], starts: Sequence[tuple[int, ...]], *, first: int
) -> dict[int, tuple[int, ...]]:
    """Return the tags of the words that were cut off, by the number of their sentence."""
    return {
        number: example.label[len(words) :]
        for number, (example, words) in enumerate(zip(examples, starts, strict=True), first)
        if isinstance(example.label, tuple) and len(words) < len(example.label)
    }
