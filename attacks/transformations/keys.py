"""Typing errors by a key next to the right one.

Source: Pruthi, Dhingra, Lipton, "Combating Adversarial Misspellings with Robust Word Recognition",
2019, section 3.
"""

from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal, get_args

from attacks.transformations.word_swap import Span, WordSwap
from text import check_choice

Layout = Literal["qwerty", "qwertz", "azerty", "spanish", "textattack"]
_ROWS: dict[str, tuple[str, str, str]] = {
    "qwerty": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "qwertz": ("qwertzuiop\u00fc", "asdfghjkl\u00f6\u00e4", "yxcvbnm"),
    "azerty": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "spanish": ("qwertyuiop", "asdfghjkl\u00f1", "zxcvbnm"),
}
_REFERENCE = (
    "qwas wqeasd ewsdfr redfgt trfghy ytghju uyhjki iujklo oiklp pol aqwszx sqweadzx dwerfcxs "
    "fertgvcd grtyhbvd htyugjbn jyuikmnh kuiolmj liopk zasx xsdzc cxdfv vcfgb bvghn nbhjm mnjk"
)
"""Each key and its neighbours in TextAttack 0.3.11, whose table is not symmetric."""
LAYOUTS: dict[str, Layout] = {
    "english": "qwerty",
    "german": "qwertz",
    "french": "azerty",
    "spanish": "spanish",
    "chinese": "qwerty",
}
"""The usual keyboard of a language."""


def find_neighbours(layout: Layout) -> dict[str, str]:
    """Return the neighbours of each key: left and right, and those that touch it above and below.

    A key of a row is half a key to the right of the one with its number in the row above.
    """
    if layout == "textattack":
        return {keys[0]: keys[1:] for keys in _REFERENCE.split()}
    rows = _ROWS[layout]
    keys = {
        # Rows are shifted: a key touches two of the row above and two of the row below.
        key: (row, column + row / 2)
        for row, letters in enumerate(rows)
        for column, key in enumerate(letters)
    }
    return {
        key: "".join(
            other
            for other, (r, c) in keys.items()
            if other != key and abs(r - row) <= 1 and abs(c - column) <= (1 if r == row else 0.5)
        )
        for key, (row, column) in keys.items()
    }


@dataclass(frozen=True, kw_only=True)
class NeighbourKey(WordSwap):
    """Replaces a character by that of a neighbouring key.

    Attributes:
        layout: of the keyboard; `textattack` is the table of TextAttack 0.3.11.
        one: change one random place; if false, return a candidate for each place and key.
        keep_first: keep the first character.
        keep_last: keep the last character.
    """

    span: ClassVar[Span | None] = "typo"
    layout: Layout = "qwerty"
    one: bool = True
    keep_first: bool = False
    keep_last: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown layout."""
        check_choice("layout", self.layout, get_args(Layout))

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        near = find_neighbours(self.layout)
        misspellings = [
            word[:position]
            # Shift stays pressed.
            + (key.upper() if word[position].isupper() else key)
            + word[position + 1 :]
            for position in range(int(self.keep_first), len(word) - self.keep_last)
            for key in near.get(word[position].lower(), "")
        ]
        return [random.choice(misspellings)] if self.one and misspellings else misspellings
