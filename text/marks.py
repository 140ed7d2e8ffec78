r"""Combining marks: accents, vowel signs and the like, which belong to the letter before them.

`\w` of `re` matches none of them, so that words of Hindi, or with decomposed accents, fall apart.
"""

import unicodedata
from itertools import groupby


def _ranges() -> str:
    """Marks of all scripts, as ranges of a character class."""
    # None lies between these, but for the variation selectors of Chinese characters.
    found = [i for i in range(0x300, 0x1F000) if unicodedata.category(chr(i)).startswith("M")]
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(found), key=lambda one: one[1] - one[0])
    ]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


MARKS = _ranges() + "\U000e0100-\U000e01ef\u200c\u200d"
"""For the inside of a character class of `re`; with the joiners, which stand inside words, too."""
