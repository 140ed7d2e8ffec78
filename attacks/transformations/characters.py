"""Misspellings: characters swapped, replaced, deleted, inserted, or others that look the same.

Sources: Gao et al., "Black-box Generation of Adversarial Text Sequences to Evade Deep Learning
Classifiers" (DeepWordBug), 2018, section 3.2; Li et al., "TextBugger: Generating Adversarial Text
Against Real-world Applications", 2019, section 3.

Random choices take the numbers of the sample in the order of its words, so that they do not depend
on other samples.
"""

import string
from dataclasses import dataclass
from random import Random

from attacks.transformations.word_swap import WordSwap

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
class _Edit(WordSwap):
    """Changes a word of at least two characters in one place.

    Attributes:
        one: change one random place; if false, return a candidate for each place.
        keep_first: keep the first character.
        keep_last: keep the last character.
    """

    one: bool = True
    keep_first: bool = False
    keep_last: bool = False

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        if len(word) < 2:
            return []
        positions = range(1 if self.keep_first else 0, self.positions(len(word)) - self.keep_last)
        if not positions:
            return []
        chosen = [random.choice(positions)] if self.one else positions
        return [self.edit(word, position, random) for position in chosen]

    def positions(self, length: int) -> int:
        """Return the number of places where a word of this length can be changed."""
        return length

    def edit(self, word: str, position: int, random: Random) -> str:
        """Return the word changed in one place."""
        return word


class SwapCharacters(_Edit):
    """Swaps two adjacent characters."""

    def positions(self, length: int) -> int:
        """See `_Edit`."""
        return length - 1

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Edit`."""
        return word[:position] + word[position + 1] + word[position] + word[position + 2 :]


class DeleteCharacter(_Edit):
    """Deletes a character."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Edit`."""
        return word[:position] + word[position + 1 :]


@dataclass(frozen=True, kw_only=True)
class SubstituteCharacter(_Edit):
    """Replaces a character by a random letter.

    Attributes:
        letters: those to choose from.
    """

    letters: str = string.ascii_letters

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Edit`."""
        return word[:position] + random.choice(self.letters) + word[position + 1 :]


@dataclass(frozen=True, kw_only=True)
class InsertCharacter(_Edit):
    """Inserts a random letter before a character; as in the reference, never behind the last.

    Attributes:
        letters: those to choose from.
    """

    letters: str = string.ascii_letters

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Edit`."""
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

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Edit`."""
        return f"{word[:position]} {word[position:]}"


@dataclass(frozen=True, kw_only=True)
class Homoglyphs(WordSwap):
    """Replaces a character by one that looks the same; a candidate for each place."""

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        return [
            word[:position] + LOOK_ALIKE[character] + word[position + 1 :]
            for position, character in enumerate(word)
            if character in LOOK_ALIKE
        ]
