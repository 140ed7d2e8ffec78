"""Changes of words that change what a text says: negations, antonyms, numbers, names."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from rapidfuzz.distance import Levenshtein

from attacks.document import word_spans
from text import Text

NEGATIONS = frozenset(
    (
        *("no", "not", "none", "nobody", "nothing", "nowhere", "neither", "nor", "never"),
        *("without", "cannot", "hardly", "scarcely", "barely", "n't", "aint"),
    )
)
"""Words that turn a statement round; contractions with n't count as well."""
NUMBERS = frozenset(
    (
        *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
        *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
        *("eighteen", "nineteen", "twenty", "thirty", "forty", "fifty", "sixty", "seventy"),
        *("eighty", "ninety", "hundred", "thousand", "million", "billion", "trillion"),
        *("half", "third", "quarter", "dozen", "first", "second"),
    )
)
_SENTENCE_END = re.compile(r"[.!?:;\"“”]\s*$|^\s*$|\n\s*$")


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        text: the word.
        name: True for a capitalised word that does not begin a sentence.
    """

    text: str
    name: bool


class Opposites(Protocol):
    """Knows antonyms; see `attacks.resources.wordnet.WordNet`."""

    def antonyms(self, word: str) -> frozenset[str]:
        """Returns the base forms of the antonyms of a word, in lower case."""

    def lemmas(self, word: str) -> frozenset[str]:
        """Returns the base forms of a word, in lower case."""


class WordChanges(NamedTuple):
    """The changes of a text that are no change of style.

    Attributes:
        antonyms: words replaced by an antonym.
        negations: negations put in or taken out.
        numbers: numbers that are no longer there, or new.
        names: names that are no longer there, or new.
        words: words replaced, put in or taken out.
    """

    antonyms: int
    negations: int
    numbers: int
    names: int
    words: int


def words(text: Text) -> list[Word]:
    """Returns the words of a text or pair."""
    found = []
    for given in (text,) if isinstance(text, str) else text:
        part = given.replace("’", "'")
        end = 0
        capitals = part.upper() == part  # all in capitals: no word is a name
        for start, stop in word_spans(part):
            word = part[start:stop]
            begins = bool(_SENTENCE_END.search(part[:start] if not end else part[end - 1 : start]))
            named = word[:1].isupper() and word != "I" and not word.startswith("I'")
            found.append(Word(word, named and not begins and not capitals))
            end = stop
    return found


def word_changes(original: Text, changed: Text, opposites: Opposites) -> WordChanges:
    """Returns what has changed between two texts.

    Args:
        original: the text.
        changed: what became of it.
        opposites: antonyms.
    """
    before, after = words(original), words(changed)
    antonyms = edits = 0
    lost: list[Word] = []
    new: list[Word] = []
    for code in Levenshtein.opcodes([one.text for one in before], [one.text for one in after]):
        if code.tag == "equal":
            continue
        old = before[code.src_start : code.src_end]
        put = after[code.dest_start : code.dest_end]
        edits += max(len(old), len(put))
        lost += old
        new += put
        for a, b in zip(old, put, strict=False):
            turned = opposites.antonyms(a.text) & opposites.lemmas(b.text)
            antonyms += bool(turned) and a.text.casefold() != b.text.casefold()
    return WordChanges(
        antonyms=antonyms,
        negations=_difference(map(_negation, before), map(_negation, after)),
        numbers=_difference(map(_number, before), map(_number, after)),
        names=_difference(
            (one.text if one.name else "" for one in lost),
            (one.text if one.name else "" for one in new),
        ),
        words=edits,
    )


def _difference(before: Iterable[str], after: Iterable[str]) -> int:
    first, second = Counter(filter(None, before)), Counter(filter(None, after))
    return max((first - second).total(), (second - first).total())


def _negation(word: Word) -> str:
    """Returns a mark for negations, whichever they are; else nothing."""
    text = word.text.casefold()
    return "not" if text in NEGATIONS or text.endswith("n't") else ""


def _number(word: Word) -> str:
    """Returns the word if it is a number; else nothing."""
    text = word.text.casefold()
    return text if any(map(str.isdigit, text)) or text in NUMBERS else ""
