"""Finds the new words of a candidate and the words that they replace."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from attacks.compat import Compat
from attacks.composition import Group
from attacks.document import words_of


class WordReplacements(NamedTuple):
    """Several candidates for the same position.

    Attributes:
        at: number of the word; of the current document, or of the original for the reference.
        old: the word at that position.
        new: the words that replace it.
        rows: positions of the candidates.
    """

    at: int
    old: str
    new: list[str]
    rows: list[int]


@lru_cache(maxsize=1 << 16)
def _words(text: str) -> tuple[str, ...]:
    return tuple(words_of(text))


def group_by_word(group: Group, *, compat: Compat, flags: list[bool]) -> Iterable[WordReplacements]:
    """Group candidates by the word that they replace; lower the flags of those turned down.

    A replacement of several words, or of none, cannot be compared with the replaced word: it is
    turned down. The reference compares each new word with the one at its position of the original,
    turns down those behind its end, and lets through a replacement without words. Insertions and
    merged words replace no single word: they are let through.
    """
    reference = compat.compares_by_position
    words = group.original.words if reference else group.current.words
    slots: dict[int, WordReplacements] = {}
    for row, candidate in enumerate(group.candidates):
        # An insertion (0) or a merge (2) replaces no single word.
        if candidate.width != 1:
            continue
        new = _words(candidate.word)
        if not reference and len(new) != 1:
            flags[row] = False
            continue
        # Several new words: the reference compares each with the word at its position.
        for index, word in enumerate(new, start=candidate.index):
            slot = slots.get(index)
            if slot is None:
                if index >= len(words):
                    flags[row] = False
                    continue
                slot = slots[index] = WordReplacements(index, words[index], [], [])
            slot.new.append(word)
            slot.rows.append(row)
    return slots.values()


def keep_words(
    groups: Sequence[Group],
    compat: Compat,
    judge: Callable[[Group, WordReplacements], Sequence[bool]],
) -> list[list[bool]]:
    """Return True for each candidate whose new words are all judged fit; see `Constraint`."""
    verdicts = []
    for group in groups:
        flags = [True] * len(group.candidates)
        for slot in group_by_word(group, compat=compat, flags=flags):
            for row, fits in zip(slot.rows, judge(group, slot), strict=True):
                flags[row] = flags[row] and fits
        verdicts.append(flags)
    return verdicts
