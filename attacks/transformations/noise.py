"""Random noise in the characters, words and spaces of a text, which people read through.

Sources: Eger et al., "Text Processing Like Humans Do: Visually Attacking and Shielding NLP
Systems", 2019 (VIPER), section 3; Eger and Benz, "From Hero to Zeroe: A Benchmark of Low-Level
Adversarial Attacks", 2020, section 3.
"""

import math
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

from attacks.composition import Job
from attacks.document import Candidate, Document
from attacks.transformations.keys import NeighbourKey
from attacks.transformations.variants import changed_text

NEIGHBOURS = 20
"""Visual neighbours of a character."""
_LAST = 30000
"""Code points from here on are no neighbours: few fonts have them."""
_MARKS = "\u0302\u0307\u030c\u0301\u0303\u0308\u030a\u0327\u0323"
"""Circumflex, dot, caron, acute, tilde, diaeresis, ring; cedilla, dot below."""


@dataclass(frozen=True)
class Noise:
    """One kind of noise.

    Attributes:
        name: name for settings.
        change: changes a character or a word at random; spaces are removed.
        unit: the part that is drawn: characters, words, or the spaces between two words.
    """

    name: str
    change: Callable[[str, Random], str]
    unit: Literal["character", "word", "space"] = "word"


@dataclass(frozen=True)
class RandomNoise:
    """Adds noise to texts.

    Stage k of a job proposes one text with noise of kind k. Characters and spaces change with
    probability `share` each. Words change in random order, until their share has changed. Stage 0
    proposes each single word with each kind of noise.

    Attributes:
        kinds: the kinds, in the order in which they are tried.
        share: share of the characters, words or spaces that change.
    """

    kinds: Sequence[Noise]
    share: float

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [self._of_words(job) if not job.stage else [self._of_text(job)] for job in jobs]

    def _of_words(self, job: Job) -> list[Candidate]:
        kinds = [kind for kind in self.kinds if kind.unit != "space"]
        return [
            candidate
            for index in job.indices
            for candidate in job.current.replace_by(
                index, [self._word(kind, job.current.words[index], job.random) for kind in kinds]
            )
        ]

    def _word(self, kind: Noise, word: str, random: Random) -> str:
        if kind.unit == "word":
            return kind.change(word, random)
        return "".join(
            kind.change(char, random) if random.random() < self.share else char for char in word
        )

    def _of_text(self, job: Job) -> Candidate:
        kind, document, random = self.kinds[job.stage - 1], job.current, job.random
        if kind.unit == "space":
            return changed_text(document, self._joined(document, job), job.indices)
        order = list(job.indices)
        if kind.unit == "word":
            random.shuffle(order)
        changes: dict[int, str] = {}
        for index in order:
            # Words that the noise leaves as they are do not count.
            if kind.unit == "word" and len(changes) >= self.share * len(order):
                break
            word = self._word(kind, document.words[index], random)
            if word != document.words[index]:
                changes[index] = word
        return changed_text(document, document.rewrite(changes, document).columns, job.indices)

    def _joined(self, document: Document, job: Job) -> tuple[str, ...]:
        columns, allowed = list(document.columns), set(job.indices)
        # From the last space on: the places before stay right.
        for index in sorted(allowed, reverse=True):
            column, start, _ = document.spans[index]
            if index - 1 not in allowed or document.column_of(index - 1) != column:
                continue
            end, text = document.spans[index - 1][2], columns[column]
            if text[end:start].isspace() and job.random.random() < self.share:
                columns[column] = text[:end] + text[start:]
        return tuple(columns)


# Visual neighbours


@cache
def described_neighbours(character: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return Latin letters whose Unicode names have the same letter and case, and their weights.

    These are the `NEIGHBOURS` nearest by the words in their names, at the Euclidean distance d of
    their counts. The weight is exp(-d / 2).
    """
    key, own = _describe(character)
    if key is None:
        return (), ()
    others = [
        (math.sqrt(sum(n * n for n in ((own - words) + (words - own)).values())), other)
        for other, words in _alphabet()[key]
        if other != character
    ]
    # Ties by the code point.
    nearest = sorted(others)[:NEIGHBOURS]
    return tuple(char for _, char in nearest), tuple(math.exp(-d / 2) for d, _ in nearest)


def describe_like(character: str, random: Random) -> str:
    """Replace a letter by one with a similar Unicode name (VIPER's DCES)."""
    neighbours, weights = described_neighbours(character)
    return random.choices(neighbours, weights)[0] if neighbours else character


def add_diacritic(character: str, random: Random) -> str:
    """Replace a letter by the same one with a diacritic (VIPER's ECES); few have none."""
    if not character.isalpha():
        return character
    # Where Unicode has no such letter, NFC leaves two characters, which do not count.
    marked = (unicodedata.normalize("NFC", character + mark) for mark in _MARKS)
    return next((letter for letter in marked if len(letter) == 1), character)


def _describe(character: str) -> tuple[tuple[str, str] | None, Counter[str]]:
    """Return letter and case of a Latin letter, None for others, and the words in its name."""
    words = unicodedata.name(character, "").split()
    letters = [word for word in words if len(word) == 1]
    cases = [word for word in words if word in {"SMALL", "CAPITAL"}]
    latin = "LATIN" in words and character.isalpha() and len(letters) == 1 and cases
    return (letters[0], cases[0]) if latin else None, Counter(w for w in words if len(w) > 1)


@cache
def _alphabet() -> dict[tuple[str, str], list[tuple[str, Counter[str]]]]:
    letters: dict[tuple[str, str], list[tuple[str, Counter[str]]]] = {}
    for character in map(chr, range(_LAST)):
        key, words = _describe(character)
        if key is not None:
            letters.setdefault(key, []).append((character, words))
    return letters


# Orthographic noise


def shuffle_inside(word: str, random: Random) -> str:
    """Shuffle the letters between the first and the last one."""
    return word[:1] + _shuffled(word[1:-1], random) + word[-1:] if len(word) > 3 else word


def shuffle_all(word: str, random: Random) -> str:
    """Shuffle the letters."""
    return _shuffled(word, random) if len(word) > 2 else word


def _shuffled(text: str, random: Random) -> str:
    letters = list(text)
    # "aa" has no other order.
    for _ in range(10):
        random.shuffle(letters)
        if "".join(letters) != text:
            break
    return "".join(letters)


def intrude(word: str, random: Random, *, share: float) -> str:
    """Put the same sign between letters, each time with probability `share`, at least once."""
    sign = random.choice(string.punctuation)
    if len(word) < 2 or share <= 0:
        return word
    while True:
        # Drawn again until one place has the sign; two letters have a single place.
        drawn = [len(word) == 2 or random.random() < share for _ in word[1:]]
        if any(drawn):
            break
    pairs = zip(word[1:], drawn, strict=True)
    return word[0] + "".join(sign + char if before else char for char, before in pairs)


def disemvowel(word: str, random: Random) -> str:
    """Leave out a, e, i, o, u of a word with other letters."""
    rest = "".join(char for char in word if char not in "aeiouAEIOU")
    return rest if rest and len(word) > 2 else word


def truncate(word: str, random: Random) -> str:
    """Leave out the last of more than three characters."""
    return word[:-1] if len(word) > 3 else word


def remove(space: str, random: Random) -> str:
    """Leave a space out."""
    return ""


@dataclass(frozen=True)
class WrongKey:
    """Hits one wrong key in a word.

    Attributes:
        keys: the neighbours of each key.
    """

    keys: NeighbourKey

    def __call__(self, word: str, random: Random) -> str:
        """Return the word with the error; the word itself if none of its keys has neighbours."""
        return next(iter(self.keys.replacements(word, random)), word)
