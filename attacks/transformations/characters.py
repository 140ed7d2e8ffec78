"""Misspellings: characters swapped, replaced, deleted, inserted, or others that look the same.

Sources: Gao et al., "Black-box Generation of Adversarial Text Sequences to Evade Deep Learning
Classifiers" (DeepWordBug), 2018, section 3.2; Li et al., "TextBugger: Generating Adversarial Text
Against Real-world Applications", 2019, section 3.

Random choices take the numbers of the sample in the order of its words, so that they do not depend
on other samples.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from attacks.transformations.word_swap import Span, WordSwap

LOOK_ALIKE = dict(
    zip(
        "-9876543210'abcdefghijklmnopqrstuvwxyz",
        "˗৭Ȣ𝟕бƼᏎƷᒿlO`ɑЬϲԁе𝚏ɡհіϳ𝒌ⅼｍոорԛⲅѕ𝚝սѵԝ×уᴢ",
        strict=True,
    )
)
"""The reference's table of characters that look like others."""


_MORE = {"german": "äöüß", "french": "àâçèéêëîïôùû", "spanish": "áéíóúüñ"}


def letters_of(language: str) -> str:
    """Return the letters that misspellings of a language put into words."""
    return string.ascii_letters + _MORE.get(language, "")


@dataclass(frozen=True, kw_only=True)
class PositionEdit(WordSwap):
    """Changes a word at one position.

    Attributes:
        one: change one random position; if false, return a candidate for each position.
    """

    one: bool = True

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        positions = self.positions(word)
        if self.one and positions:
            # Also a range: the draw is the same as from a list.
            positions = [random.choice(positions)]
        return [self.edit(word, position, random) for position in positions]

    def positions(self, word: str) -> Sequence[int]:
        """Return the positions where a word can be changed."""
        # Subclasses define this and `edit`, or `replacements` as a whole.
        raise NotImplementedError

    def edit(self, word: str, position: int, random: Random) -> str:
        """Return the word changed at one position."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _Edit(PositionEdit):
    """Changes a word of at least two characters.

    Attributes:
        keep_first: keep the first character.
        keep_last: keep the last character.
    """

    keep_first: bool = False
    keep_last: bool = False
    span: ClassVar[Span | None] = "typo"
    reach = 1
    """Characters that are changed together."""

    def positions(self, word: str) -> Sequence[int]:
        """See `PositionEdit`."""
        # A swap needs the next character, too.
        stop = len(word) + 1 - self.reach - self.keep_last
        return range(int(self.keep_first), stop) if len(word) > 1 else ()


class SwapCharacters(_Edit):
    """Swaps two adjacent characters."""

    reach = 2

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        # ab -> ba
        return word[:position] + word[position + 1] + word[position] + word[position + 2 :]


class DeleteCharacter(_Edit):
    """Deletes a character."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        return word[:position] + word[position + 1 :]


@dataclass(frozen=True, kw_only=True)
class SubstituteCharacter(_Edit):
    """Replaces a character by a random letter.

    Attributes:
        letters: those to choose from.
    """

    letters: str = string.ascii_letters

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        return word[:position] + random.choice(self.letters) + word[position + 1 :]


@dataclass(frozen=True, kw_only=True)
class InsertCharacter(_Edit):
    """Inserts a random letter before a character; as in the reference, never behind the last.

    Attributes:
        letters: those to choose from.
    """

    letters: str = string.ascii_letters

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        return word[:position] + random.choice(self.letters) + word[position:]


@dataclass(frozen=True, kw_only=True)
class InsertSpace(_Edit):
    """Splits a word in two by a space.

    Attributes:
        keep_first: not before the first character, which would change no word.
        keep_last: not before the last.
    """

    keep_first: bool = True
    keep_last: bool = True
    span: ClassVar[Span | None] = "split"

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        return f"{word[:position]} {word[position:]}"


@dataclass(frozen=True, kw_only=True)
class Homoglyphs(WordSwap):
    """Replaces a character by one that looks the same; a candidate for each place."""

    span: ClassVar[Span | None] = "typo"

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        return [
            word[:position] + LOOK_ALIKE[character] + word[position + 1 :]
            for position, character in enumerate(word)
            if character in LOOK_ALIKE
        ]
