"""Changes that people do not see: invisible characters, look-alikes, reordering, deletion.

Source: Boucher et al., "Bad Characters: Imperceptible NLP Attacks", 2022, section IV. Unicode's
rules of display (UAX #9 for reordering) make the changed text look like the original. Whether it
does depends on the program that shows it: few show nothing for backspace.
"""

import string
from dataclasses import dataclass
from random import Random

from attacks.transformations.characters import LOOK_ALIKE
from attacks.transformations.word_swap import WordSwap

INVISIBLE = "\u200b\u200c\u200d"
"""Zero width space, non-joiner, joiner."""
_CAPITALS = dict(
    zip(
        "ABCEHIJKMNOPSTXYZ",
        "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u039d\u041e\u0420\u0405\u0422\u0425\u0423\u0396",
        strict=True,
    )
)
"""Cyrillic and Greek capitals that look like Latin ones."""
TWINS = LOOK_ALIKE | _CAPITALS
_LRO, _RLO, _PDF, _LRI, _PDI = "\u202d", "\u202e", "\u202c", "\u2066", "\u2069"
_BACKSPACE = "\u0008"


@dataclass(frozen=True, kw_only=True)
class _Unseen(WordSwap):
    """Changes a word in one place.

    Attributes:
        one: change one random place; if false, return a candidate for each place.
    """

    one: bool = True

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        positions = self.positions(word)
        if self.one and positions:
            positions = [random.choice(positions)]
        return [self.edit(word, position, random) for position in positions]

    def positions(self, word: str) -> list[int]:
        """Return the places where a word can be changed."""
        return list(range(1, len(word)))

    def edit(self, word: str, position: int, random: Random) -> str:
        """Return the word changed in one place."""
        return word


class InsertInvisible(_Unseen):
    """Puts a character without width inside a word."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Unseen`."""
        return word[:position] + random.choice(INVISIBLE) + word[position:]


class SwapTwins(_Unseen):
    """Replaces a character by one of another script that looks the same."""

    def positions(self, word: str) -> list[int]:
        """See `_Unseen`."""
        return [i for i, character in enumerate(word) if character in TWINS]

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Unseen`."""
        return word[:position] + TWINS[word[position]] + word[position + 1 :]


class Reorder(_Unseen):
    """Swaps two characters, with control characters that have them shown in their old order."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Unseen`."""
        first, second = word[position - 1], word[position]
        swapped = f"{_LRO}{_LRI}{_RLO}{_LRI}{second}{_PDI}{_LRI}{first}{_PDI}{_PDF}{_PDI}{_PDF}"
        return word[: position - 1] + swapped + word[position + 1 :]


class TypeAndDelete(_Unseen):
    """Inserts a letter and a backspace, which takes it away where the text is shown."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `_Unseen`."""
        return word[:position] + random.choice(string.ascii_letters) + _BACKSPACE + word[position:]
