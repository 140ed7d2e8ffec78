"""Changes of words that change the meaning of a text: negations, antonyms, numbers, names."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from rapidfuzz.distance import OSA, Levenshtein

from attacks.document import word_spans
from attacks.resources.known_names import NUMBER_WORDS
from text import Text
from text.stop_words import ENGLISH, TEXTFOOLER

NEGATIONS = frozenset(
    (
        *("no", "not", "none", "nobody", "nothing", "nowhere", "neither", "nor", "never"),
        *("without", "cannot", "hardly", "scarcely", "barely", "n't", "aint"),
    )
)
"""Words that turn a statement round; contractions with n't count as well."""
_ONES = NUMBER_WORDS[:20]
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBERS = {
    **{word: str(value) for value, word in enumerate(_ONES)},
    **{word: str(10 * value) for value, word in enumerate(_TENS, start=2)},
    "first": "1th",
    "second": "2th",
    "third": "3th",
    **{word: word for word in ("hundred", "thousand", "million", "billion", "trillion")},
    **{word: word for word in ("half", "quarter", "dozen")},
}
"""Words for numbers, and how they are compared with those in digits."""
_NUMERAL = re.compile(
    r"(?P<whole>\d{1,3}(?:[,'\u00a0\u202f]\d{3})+|\d+)(?P<rest>\.\d+)?(?!\w)"
    r"|(?P<order>\d+)(?:st|nd|rd|th)|\d+(?:s|d|k|m|x|g|am|pm|bn|mm|cm|km|kg|mg|gb|mb)"
    r"|[A-Z]+-?\d+[A-Z]?(?!\w)"
)
"""A number in digits, perhaps with a unit, or in a name (U2); other words with digits are
misspelt ones (fi1m)."""
_PRONOUN = frozenset(
    ("no", "any", "every", "each", "some", "this", "that", "which", "another", "the", "either")
)
"""Words behind which "one" is a pronoun."""
_LOOKS = str.maketrans("013457@$|", "oieastasl")
"""Digits and marks that stand for letters of about their shape."""
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
    """Knows antonyms; see `attacks.resources.wordnet.WordNet`.

    With `knows(word)`, another word is told from a misspelt one by a dictionary.
    """

    def antonyms(self, word: str) -> frozenset[str]:
        """Return the base forms of the antonyms of a word, in lower case."""

    def lemmas(self, word: str) -> frozenset[str]:
        """Return the base forms of a word, in lower case."""


class WordChanges(NamedTuple):
    """The changes of a text beyond its style.

    Attributes:
        antonyms: words replaced by an antonym.
        negations: negations put in or taken out.
        numbers: numbers that were removed or added.
        names: names that were removed or added.
        words: words replaced, put in or taken out.
    """

    antonyms: int
    negations: int
    numbers: int
    names: int
    words: int


def words(text: Text) -> list[Word]:
    """Return the words of a text or pair."""
    tokens = []
    # Both texts of a pair, one after the other.
    for side in (text,) if isinstance(text, str) else text:
        part = side.replace("’", "'")
        end = 0
        capitals = part.upper() == part  # all in capitals: no word is a name
        for start, stop in _spans(part):
            word = part[start:stop]
            # A capital at the begin of a sentence is no name.
            begins = bool(_SENTENCE_END.search(part[:start] if not end else part[end - 1 : start]))
            named = word[:1].isupper() and word != "I" and not word.startswith("I'")
            tokens.append(Word(word, named and not begins and not capitals))
            end = stop
    return tokens


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each word; the parts of a number (3,000.5) are one word."""
    end = 0
    for start, stop in word_spans(text):
        if start < end:
            continue
        numeral = _NUMERAL.match(text, start)
        end = stop if numeral is None else max(stop, numeral.end())
        yield start, end


def word_changes(original: Text, changed: Text, opposites: Opposites) -> WordChanges:
    """Return the changes between two texts."""
    before, after = words(original), words(changed)
    antonyms = edits = 0
    lost: list[Word] = []
    new: list[Word] = []
    read: list[Word] = []
    knows: Callable[[str], bool] = getattr(opposites, "knows", lambda _: False)
    hunk: tuple[list[Word], list[Word]] = ([], [])
    for code in Levenshtein.opcodes([word.text for word in before], [word.text for word in after]):
        old = before[code.src_start : code.src_end]
        put = after[code.dest_start : code.dest_end]
        if code.tag == "equal":
            read += [*_read(*hunk, knows), *put]
            hunk = ([], [])
            continue
        hunk[0].extend(old)
        hunk[1].extend(put)
        # A word that becomes two is two edits.
        edits += max(len(old), len(put))
        lost += old
        new += put
        for a, b in zip(old, put, strict=False):
            turned = opposites.antonyms(a.text) & opposites.lemmas(b.text)
            antonyms += bool(turned) and a.text.casefold() != b.text.casefold()
    read += _read(*hunk, knows)
    return WordChanges(
        antonyms=antonyms,
        negations=_difference(map(_negation, before), map(_negation, read)),
        numbers=_difference(_numbers(before), _numbers(read)),
        names=_difference(
            (word.text if word.name else "" for word in lost),
            (word.text if word.name else "" for word in new),
        ),
        words=edits,
    )


def _read(old: Sequence[Word], new: Sequence[Word], knows: Callable[[str], bool]) -> Sequence[Word]:
    """Return new words as a reader takes them: those that are misspelt for the old ones."""

    def known(word: str) -> bool:
        text = word.casefold()
        usual = text in ENGLISH or text in TEXTFOOLER or text in NUMBERS or text in NEGATIONS
        return usual or (len(text) > 2 and knows(text))

    def misspelt(a: str, b: str) -> bool:
        a, b = (unicodedata.normalize("NFKC", word).casefold() for word in (a, b))
        if a.isdecimal() or known(b) or _numeral(b):
            return a == b
        # Edits with transpositions, after look-alikes are undone.
        far = OSA.distance(a.translate(_LOOKS), b.translate(_LOOKS))
        return far <= (1 if len(a) < 7 else 2)

    joined = ["".join(word.text for word in some).casefold() for some in (old, new)]
    # "notgood" for "not good": the reader sees the old words.
    if joined[0] == joined[1] and not all(known(word.text) for word in new):
        return old  # cut or joined elsewhere
    if len(old) != len(new):
        return new
    return [a if misspelt(a.text, b.text) else b for a, b in zip(old, new, strict=True)]


def _difference(before: Iterable[str], after: Iterable[str]) -> int:
    first, second = Counter(filter(None, before)), Counter(filter(None, after))
    return max((first - second).total(), (second - first).total())


def _negation(word: Word) -> str:
    """Return a mark for negations, whichever they are; else nothing."""
    text = word.text.casefold()
    return "not" if text in NEGATIONS or text.endswith("n't") else ""


def _numbers(read: Sequence[Word]) -> Iterator[str]:
    """Yield the value of each number; nothing for other words, and for "one" as a pronoun."""
    for i, word in enumerate(read):
        text = word.text.casefold()
        pronoun = text == "one" and i and read[i - 1].text.casefold() in _PRONOUN
        yield "" if pronoun else _numeral(word.text)


def _numeral(word: str) -> str:
    """Return a number in one way of writing; nothing for other words."""
    text = unicodedata.normalize("NFKC", word)
    tens, _, ones = text.casefold().partition("-")
    if tens in _TENS and ones in _ONES[1:10]:
        return str(int(NUMBERS[tens]) + int(NUMBERS[ones]))
    if text.casefold() in NUMBERS:
        return NUMBERS[text.casefold()]
    # "1,000", "1000" and "1000.0" are one number; "1st" is another.
    match = _NUMERAL.fullmatch(text) or _NUMERAL.fullmatch(text.casefold())
    if match is None:
        return ""
    if match["order"]:
        return f"{match['order'].lstrip('0')}th"
    if match["whole"] is None:
        return text.casefold()
    digits = re.sub(r"\D", "", match["whole"]).lstrip("0") or "0"
    return digits + (match["rest"] or "").rstrip("0").rstrip(".")
