"""Changes that people do not see: invisible characters, look-alikes, reordering, deletion.

Source: Boucher et al., "Bad Characters: Imperceptible NLP Attacks", 2022, section IV. Unicode's
rules of display (UAX #9 for reordering) make the changed text look like the original. Whether it
does depends on the program that shows it: few show nothing for backspace.
"""

import string
from collections.abc import Sequence
from random import Random

from attacks.transformations.characters import LOOK_ALIKE, PositionEdit

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


class _Unseen(PositionEdit):
    """Changes a word at one position inside it."""

    def positions(self, word: str) -> Sequence[int]:
        """See `PositionEdit`."""
        return range(1, len(word))


class InsertInvisible(_Unseen):
    """Puts a character without width inside a word."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        return word[:position] + random.choice(INVISIBLE) + word[position:]


class SwapTwins(_Unseen):
    """Replaces a character by one of another script that looks the same."""

    def positions(self, word: str) -> Sequence[int]:
        """See `PositionEdit`."""
        return [i for i, character in enumerate(word) if character in TWINS]

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        return word[:position] + TWINS[word[position]] + word[position + 1 :]


class Reorder(_Unseen):
    """Swaps two characters, with control characters that have them shown in their old order."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        first, second = word[position - 1], word[position]
        swapped = f"{_LRO}{_LRI}{_RLO}{_LRI}{second}{_PDI}{_LRI}{first}{_PDI}{_PDF}{_PDI}{_PDF}"
        return word[: position - 1] + swapped + word[position + 1 :]


class TypeAndDelete(_Unseen):
    """Inserts a letter and a backspace, which takes it away where the text is shown."""

    def edit(self, word: str, position: int, random: Random) -> str:
        """See `PositionEdit`."""
        return word[:position] + random.choice(string.ascii_letters) + _BACKSPACE + word[position:]
