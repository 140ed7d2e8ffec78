"""Parts of speech, and the features of a perceptron tagger; see `tagger`."""

from functools import lru_cache
from typing import NamedTuple

START = ("-START-", "-START2-")
"""Words before the first; also the two tags before the first, the nearest one first."""
END = ("-END-", "-END2-")
"""Words behind the last."""

# Petrov, Das, McDonald (2012), for the tags of the Penn Treebank; all others are X.
_UNIVERSAL = {
    "ADJ": "JJ JJR JJS",
    "ADP": "IN",
    "ADV": "RB RBR RBS WRB",
    "CONJ": "CC",
    "DET": "DT EX PDT WDT",
    "NOUN": "NN NNP NNPS NNS NP",
    "NUM": "CD",
    "PRON": "PRP PRP$ WP WP$",
    "PRT": "POS PRT RP TO",
    "VERB": "MD VB VBD VBG VBN VBP VBZ VP",
    ".": "! # $ '' ( ) , -LRB- -RRB- . : ? ``",
}
UNIVERSAL = {fine: coarse for coarse, tags in _UNIVERSAL.items() for fine in tags.split()}


class WordContext(NamedTuple):
    """A word in a text, and the words around it.

    Attributes:
        before: the two words before it, normalised, in their order.
        word: word as it is written.
        after: the two words behind it, normalised.
    """

    before: tuple[str, str]
    word: str
    after: tuple[str, str]


@lru_cache(maxsize=1 << 16)
def normalise(word: str) -> str:
    """Return the form of a word in features."""
    if "-" in word and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    if word and word[0].isdigit():
        return "!DIGITS"
    return word.lower()


def features(tags: tuple[str, str], surroundings: WordContext) -> list[str]:
    """Return the features of a word, in the order of the original.

    `tags` are those of the two words before it, in their order.
    """
    far, near = tags
    word, own = surroundings.word, normalise(surroundings.word)
    second_before, before = surroundings.before
    following, second_behind = surroundings.after
    return [
        "bias",
        f"i suffix {word[-3:]}",
        f"i pref1 {word[:1]}",
        f"i-1 tag {near}",
        f"i-2 tag {far}",
        f"i tag+i-2 tag {near} {far}",
        f"i word {own}",
        f"i-1 tag+i word {near} {own}",
        f"i-1 word {before}",
        f"i-1 suffix {before[-3:]}",
        f"i-2 word {second_before}",
        f"i+1 word {following}",
        f"i+1 suffix {following[-3:]}",
        f"i+2 word {second_behind}",
    ]
