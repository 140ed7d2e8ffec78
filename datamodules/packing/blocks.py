"""Sequence packing: texts are joined and cut into blocks of one length, without padding."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from text import PretrainedTokenizer

_TEXTS = 2048
# Texts, and characters, that are encoded at once: enough for all threads of the tokenizer, in
# memory that does not depend on the corpus.
_CHARACTERS = 2**20

_KNOWN = 2**18
# Words whose ids are cached, about 50 MB, and their total of characters: a line without spaces, as
# of Chinese, is one word.
_KNOWN_CHARACTERS = 2**23
# Marks the end of a text among its words, which have no spaces.
_END = " "


class Blocks(NamedTuple):
    """Some blocks `[n, length]` of token ids, in the order of the text, with `[n]` real tokens.

    Only the last block of a corpus ends with padding.
    """

    ids: NDArray[np.int32]
    tokens: NDArray[np.int32]


def pack(
    texts: Iterable[str],
    tokenizer: PretrainedTokenizer,
    length: int,
    *,
    limit_tokens: int | None = None,
) -> Iterator[Blocks]:
    """Join texts and cut them into blocks of `length` tokens; only the last may be shorter.

    The tokenizer's separator ([SEP], </s>) follows each text. The result is cut into pieces of
    `length` minus the template, if any, and each piece is put into the template ([CLS] ... [SEP]),
    so that a block looks like a text to the encoder (Liu et al. 2019, section 4.2, full sentences).
    The texts are read once, up to `limit_tokens` without templates; only a few are in memory at a
    time.

    Raises:
        ValueError: `length` has no room after the template, or is more than the tokenizer allows.
    """
    before, after = (np.array(ids, dtype=np.int32) for ids in tokenizer.template)
    room = length - len(before) - len(after)
    if room < 1 or length > tokenizer.max_length:
        msg = (
            f"got length={length}, expected {len(before) + len(after) + 1} to "
            f"{tokenizer.max_length}, the longest input of the tokenizer"
        )
        raise ValueError(msg)

    def frame(ids: NDArray[np.int32]) -> NDArray[np.int32]:
        rows = ids.reshape(-1, room)
        first, last = (np.broadcast_to(part, (len(rows), len(part))) for part in (before, after))
        return np.concatenate([first, rows, last], axis=1)

    rest = np.zeros(0, dtype=np.int32)
    # The separator is the last token of the template.
    for ids in _limit(_flatten(texts, tokenizer, after[-1:]), limit_tokens):
        joined = np.concatenate([rest, ids])
        n = len(joined) // room
        rest = joined[n * room :]
        if n:
            yield Blocks(frame(joined[: n * room]), np.full(n, length, dtype=np.int32))
    if len(rest):
        last = np.full((1, length), tokenizer.pad_id, dtype=np.int32)
        real = np.concatenate([before, rest, after])
        last[0, : len(real)] = real
        yield Blocks(last, np.array([len(real)], dtype=np.int32))


def _flatten(
    texts: Iterable[str], tokenizer: PretrainedTokenizer, separator: NDArray[np.int32]
) -> Iterator[NDArray[np.int32]]:
    """Yield the ids of many texts at a time, with the separator after each text."""
    between = separator.tobytes()
    # Only if the ids of a word do not depend on its neighbours.
    words = _Words(tokenizer) if tokenizer.splits_at_spaces else None
    for parts in _chunks(texts):
        if words is not None:
            yield np.frombuffer(words.encode(parts, between), dtype=np.int32)
            continue
        coded = zip(tokenizer.pieces([part for part, _ in parts]), parts, strict=True)
        raw = (_raw(ids) + (between if end else b"") for ids, (_, end) in coded)
        yield np.frombuffer(b"".join(raw), dtype=np.int32)


def _raw(ids: list[int]) -> bytes:
    return array("i", ids).tobytes()


class _Words:
    """Encodes texts word by word, with a cache; the library has none.

    The cache is bounded: when it is full, it is cleared.
    """

    def __init__(self, tokenizer: PretrainedTokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, bytes] = {}
        self._characters = 0

    def encode(self, parts: Sequence[tuple[str, bool]], between: bytes) -> bytes:
        """Return the ids of texts as bytes of int32, with the separator after complete texts."""
        words: list[str] = []
        for text, end in parts:
            words += text.split(" ")
            if end:
                words.append(_END)
        distinct = set(words)
        new = distinct.difference(self._known)
        full = self._characters > _KNOWN_CHARACTERS
        if full or len(self._known) + len(new) > _KNOWN:
            self._known.clear()
            self._characters = 0
            # The words of this chunk that were cached are gone, too.
            new = distinct
        self._characters += sum(map(len, new))
        listed = list(new)
        self._known.update(zip(listed, map(_raw, self._tokenizer.pieces(listed)), strict=True))
        self._known[_END] = between
        return b"".join(map(self._known.__getitem__, words))


def _chunks(texts: Iterable[str]) -> Iterator[list[tuple[str, bool]]]:
    """Yield chunks of texts, each with True if it is complete; long ones are split at spaces."""
    chunk: list[tuple[str, bool]] = []
    size = 0
    for text in texts:
        start = 0
        while True:
            end = len(text)
            if end - start > _CHARACTERS:
                # Before the space: byte-level tokenizers attach it to the following word.
                space = text.rfind(" ", start + 1, start + _CHARACTERS)
                end = space if space > 0 else start + _CHARACTERS
            chunk.append((text[start:end], end == len(text)))
            size += end - start
            if len(chunk) == _TEXTS or size >= _CHARACTERS:
                yield chunk
                chunk, size = [], 0
            if end == len(text):
                break
            start = end
    if chunk:
        yield chunk


def _limit(parts: Iterable[NDArray[np.int32]], limit: int | None) -> Iterator[NDArray[np.int32]]:
    remaining = limit
    for part in parts:
        yield part[:remaining]
        if remaining is not None:
            remaining -= len(part)
            if remaining <= 0:
                return
