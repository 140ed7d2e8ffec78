"""Sequence packing: texts joined and cut into blocks of one length, so that nothing is padding."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from text import PretrainedTokenizer

_TEXTS = 2048
_CHARACTERS = 2**20
"""Texts, and characters, that are encoded at once: enough to keep all cores of the tokenizer busy,
and little enough that memory does not depend on the corpus."""

_KNOWN = 2**18
_KNOWN_CHARACTERS = 2**23
"""Words whose ids are remembered, about 50 MB of them, and characters that these have at most: a
line without spaces, as of Chinese, is one word."""
_END = " "
"""Stands for the end of a text among its words, none of which has a space in it."""


class Blocks(NamedTuple):
    """Some blocks, in the order of the text.

    Attributes:
        ids: `[n, length]` token ids; the padding id behind the end of the last block of a corpus.
        tokens: `[n]` how many of them are real: `length` but in the last block.
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
    """Join texts and cut them into blocks.

    Behind each text stands the tokenizer's separator ([SEP], </s>). The result is cut into pieces
    of `length` less the template, and each piece is put into the template ([CLS] ... [SEP]), so
    that a block looks like a text to the encoder (Liu et al. 2019, section 4.2, full sentences).

    Args:
        texts: read once, and never held all together.
        tokenizer: with a template or without.
        length: tokens of a block, those of the template included.
        limit_tokens: stop after this many tokens, those of templates not counted.

    Yields:
        Blocks; only the very last one may be shorter than `length`.

    Raises:
        ValueError: a `length` that the template alone fills, or that the tokenizer excludes.
    """
    before, behind = (np.array(ids, dtype=np.int32) for ids in tokenizer.template)
    room = length - len(before) - len(behind)
    if room < 1 or length > tokenizer.max_length:
        msg = (
            f"got length={length}, expected {len(before) + len(behind) + 1} to "
            f"{tokenizer.max_length}, the longest input of the tokenizer"
        )
        raise ValueError(msg)

    def framed(ids: NDArray[np.int32]) -> NDArray[np.int32]:
        rows = ids.reshape(-1, room)
        around = (np.broadcast_to(part, (len(rows), len(part))) for part in (before, behind))
        first, last = around
        return np.concatenate([first, rows, last], axis=1)

    rest = np.zeros(0, dtype=np.int32)
    for ids in _limited(_flat(texts, tokenizer, behind[-1:]), limit_tokens):
        joined = np.concatenate([rest, ids])
        n = len(joined) // room
        rest = joined[n * room :]
        if n:
            yield Blocks(framed(joined[: n * room]), np.full(n, length, dtype=np.int32))
    if len(rest):
        last = np.full((1, length), tokenizer.pad_id, dtype=np.int32)
        real = np.concatenate([before, rest, behind])
        last[0, : len(real)] = real
        yield Blocks(last, np.array([len(real)], dtype=np.int32))


def _flat(
    texts: Iterable[str], tokenizer: PretrainedTokenizer, separator: NDArray[np.int32]
) -> Iterator[NDArray[np.int32]]:
    """The ids of many texts at a time, with the separator behind each text."""
    between = separator.tobytes()
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
    """Encodes texts by looking up their words: each is encoded once, not as often as it occurs.

    The library has no memory of words. This one is bounded: when it is full, it begins anew.
    """

    def __init__(self, tokenizer: PretrainedTokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, bytes] = {}
        self._characters = 0

    def encode(self, parts: Sequence[tuple[str, bool]], between: bytes) -> bytes:
        """The ids of texts, with the separator behind those that end, as bytes of int32."""
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
            new = distinct
        self._characters += sum(map(len, new))
        listed = list(new)
        self._known.update(zip(listed, map(_raw, self._tokenizer.pieces(listed)), strict=True))
        self._known[_END] = between
        return b"".join(map(self._known.__getitem__, words))


def _chunks(texts: Iterable[str]) -> Iterator[list[tuple[str, bool]]]:
    """Texts in chunks, each with whether it ends there: long ones are taken apart at spaces."""
    chunk: list[tuple[str, bool]] = []
    size = 0
    for text in texts:
        start = 0
        while True:
            end = len(text)
            if end - start > _CHARACTERS:
                # Before the space: byte-level tokenizers count it to the word behind it.
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


def _limited(parts: Iterable[NDArray[np.int32]], limit: int | None) -> Iterator[NDArray[np.int32]]:
    left = limit
    for part in parts:
        yield part[:left]
        if left is not None:
            left -= len(part)
            if left <= 0:
                return
