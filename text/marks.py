r"""Combining marks: accents, vowel signs and the like, which belong to the letter before them.

`\w` of `re` matches none of them: without this list it would split words of Hindi, and words with
decomposed accents.
"""

import re
import unicodedata
from itertools import groupby


def _ranges() -> str:
    """Return the marks of all scripts, as ranges of a character class."""
    # The only marks outside of this interval are variation selectors, which MARKS adds.
    marks = [i for i in range(0x300, 0x1F000) if unicodedata.category(chr(i)).startswith("M")]
    # Within a run of successive code points, code point minus index is constant.
    runs = [
        [mark for _, mark in run]
        for _, run in groupby(enumerate(marks), key=lambda item: item[1] - item[0])
    ]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


MARKS = _ranges() + "\U000e0100-\U000e01ef\u200c\u200d"
"""For the inside of a character class of `re`; includes the joiners, which occur inside words."""

JOINED = re.compile(rf"[^\W_](?:[\w{MARKS}'\-*@`]*[^\W_][{MARKS}]*)?")
"""The words of `attacks.document`: marks inside a word belong to it, those at its ends do not. On
canonical text only."""
INNER = re.compile(r"['\-*@`_]+")
