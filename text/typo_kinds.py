"""Kinds of typos: some of the edits of one character."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import OSA

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
"""The characters of the targets of `text.corrector`."""

Flags = NDArray[np.bool_]


def list_edits(word: str, letters: str) -> Iterator[str]:
    """Yield a word, and the strings within one edit of it that insert or put in some letters."""
    yield word
    yield from filter(None, (word[:i] + word[i + 1 :] for i in range(len(word))))
    for i in range(len(word) - 1):
        yield f"{word[:i]}{word[i + 1]}{word[i]}{word[i + 2 :]}"
    for char in letters:
        for i in range(len(word) + 1):
            yield f"{word[:i]}{char}{word[i:]}"
            if i < len(word):
                yield f"{word[:i]}{char}{word[i + 1 :]}"


def are_near(first: str, second: str) -> bool:
    """Return whether at most one edit makes one string the other."""
    return OSA.distance(first, second, score_cutoff=1) <= 1


class TypoKind(ABC):
    """Some of the edits of one character. Every kind has the word itself.

    Attributes:
        statement: part of a sentence, as of `certify.threats.WordSet`.
        content: JSON value of all that the kind depends on.
    """

    statement: str
    content: Any

    @abstractmethod
    def has(self, word: str, typo: str) -> bool:
        """Return True if a string is such a typo of a word."""

    @abstractmethod
    def flags(self, codes: NDArray[np.uint64], change: int) -> Flags:
        """Return which of the results of `text.corrector._edit` are such typos, in its order.

        Args:
            codes: `[k, n]` words of n symbols, 1 for the first of `LETTERS`; the last number is for
                all other characters.
            change: -1 for deletions, 1 for insertions, 0 for replacements and then swaps.
        """


class KeyboardTypos(TypoKind):
    """Slips on a keyboard.

    A character is deleted, or swapped with its neighbour, or replaced by that of a neighbouring
    key; or one is inserted: that of the key before or after it, or of a neighbour of this key.

    Args:
        near: neighbouring keys of letters; other characters have none.
    """

    def __init__(self, near: Mapping[str, str]) -> None:
        self.statement = "by one slip on the keyboard (a swap, a key too many, too few or beside)"
        self.near = {char: set(near.get(char, "")) & set(LETTERS) for char in LETTERS}
        self.content = ["keyboard", {char: sorted(keys) for char, keys in self.near.items()}]

    def has(self, word: str, typo: str) -> bool:
        """See `TypoKind`."""
        if word == typo:
            return True
        if not are_near(word, typo):
            return False
        # The first difference; in a run of equal characters it does not matter which one is new.
        i = next((i for i, (a, b) in enumerate(zip(word, typo, strict=False)) if a != b), -1)
        i = min(len(word), len(typo)) if i < 0 else i
        if len(typo) > len(word):
            around = word[max(i - 1, 0) : i + 1]
            return any(typo[i] in self._beside(char) for char in around)
        # Of equal lengths: a replacement, or a swap.
        return len(typo) < len(word) or (
            word[i + 1 :] != typo[i + 1 :] or typo[i] in self.near.get(word[i], ())
        )

    def _beside(self, char: str) -> set[str]:
        """Return what a finger on a key may press as well."""
        return {char, *self.near[char]} if char in self.near else set()

    @cached_property
    def _pairs(self) -> tuple[Flags, Flags]:
        """Replacements and insertions: `[S + 1, S]` flags of the symbols beside each symbol."""
        size = len(LETTERS) + 1
        near = np.zeros((size + 1, size), np.bool_)
        for row, char in enumerate(LETTERS, start=1):
            near[row, [LETTERS.index(key) for key in self.near[char]]] = True
        same = np.zeros_like(near)
        same[1:size, : size - 1] = np.eye(size - 1, dtype=np.bool_)
        return near, near | same

    def flags(self, codes: NDArray[np.uint64], change: int) -> Flags:
        """See `TypoKind`."""
        k, n = codes.shape
        replaced, inserted = self._pairs
        if change < 0:
            return np.ones(k * n, np.bool_)
        if change > 0:
            # Row 0 is beyond the ends of a word.
            padded = np.pad(codes, ((0, 0), (1, 1))).astype(np.int64)
            return (inserted[padded[:, :-1]] | inserted[padded[:, 1:]]).reshape(-1)
        swaps = np.ones((k, n - 1), np.bool_)
        return np.concatenate(
            [replaced[codes.astype(np.int64)].reshape(k, -1), swaps], axis=1
        ).reshape(-1)


class InnerTypos(TypoKind):
    """Any typo that leaves the first and the last character.

    Source: Pruthi, Dhingra, Lipton, "Combating Adversarial Misspellings with Robust Word
    Recognition", 2019, section 3.
    """

    statement = "by one typo between its first and its last character"
    content = "inner"

    def has(self, word: str, typo: str) -> bool:
        """See `TypoKind`."""
        ends = len(word) > 1 and len(typo) > 1 and (word[0], word[-1]) == (typo[0], typo[-1])
        return word == typo or (ends and are_near(word, typo))

    def flags(self, codes: NDArray[np.uint64], change: int) -> Flags:
        """See `TypoKind`."""
        k, n = codes.shape
        symbols = 1 if change < 0 else len(LETTERS) + 1
        positions = np.zeros(n + (change > 0), np.bool_)
        positions[1:-1] = True
        inner = np.repeat(positions, symbols)
        if change == 0:
            swaps = np.zeros(n - 1, np.bool_)
            swaps[1:-1] = True
            inner = np.append(inner, swaps)
        return np.tile(inner, k)
