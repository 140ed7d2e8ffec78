"""Misspellings: characters swapped, replaced, deleted, inserted, or others that look the same.

Sources: Gao et al., "Black-box Generation of Adversarial Text Sequences to Evade Deep Learning
Classifiers" (DeepWordBug), 2018, section 3.2; Li et al., "TextBugger: Generating Adversarial Text
Against Real-world Applications", 2019, section 3.

What is random comes from the numbers of the sample, in the order of its words, so that it is the
same whatever else is attacked beside it.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from attacks.composition import Job
from attacks.document import Candidate

LOOK_ALIKE = dict(
    zip(
        "-9876543210'abcdefghijklmnopqrstuvwxyz",
        "˗৭Ȣ𝟕бƼᏎƷᒿlO`ɑЬϲԁе𝚏ɡհіϳ𝒌ⅼｍոорԛⲅѕ𝚝սѵԝ×уᴢ",
        strict=True,
    )
)
"""The reference's table: what is drawn like a digit, a small letter, a hyphen or an apostrophe."""


class Misspelling:
    """Makes candidates of misspelt words."""

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        proposed = []
        for job in jobs:
            candidates: list[Candidate] = []
            for index in job.indices:
                word = job.current.words[index]
                wrong = [one for one in self.misspell(word, job.random) if one != word]
                candidates += job.current.replace_by(index, wrong)
            proposed.append(candidates)
        return proposed

    def misspell(self, word: str, random: Random) -> list[str]:
        """Words that are nearly this one."""
        del word, random
        msg = f"got {type(self).__name__} without misspell(), expected every one to define it"
        raise TypeError(msg)


@dataclass(frozen=True, kw_only=True)
class _Edit(Misspelling):
    """Changes a word of at least two characters in one place.

    Attributes:
        one: in one random place; if false, in each place, one candidate for each.
        keep_first: leave the first character where it is.
        keep_last: leave the last character where it is.
    """

    one: bool = True
    keep_first: bool = False
    keep_last: bool = False

    def misspell(self, word: str, random: Random) -> list[str]:
        """See `Misspelling`."""
        if len(word) < 2:
            return []
        places = range(1 if self.keep_first else 0, self.places(len(word)) - self.keep_last)
        if not places:
            return []
        chosen = [random.choice(places)] if self.one else places
        return [self.edit(word, place, random) for place in chosen]

    def places(self, length: int) -> int:
        """In how many places a word can be changed if both its ends may."""
        return length

    def edit(self, word: str, place: int, random: Random) -> str:
        """The word changed in one place."""
        del place, random
        return word


class SwapCharacters(_Edit):
    """Swaps two adjacent characters."""

    def places(self, length: int) -> int:
        """See `_Edit`."""
        return length - 1

    def edit(self, word: str, place: int, random: Random) -> str:
        """See `_Edit`."""
        del random
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


class DeleteCharacter(_Edit):
    """Deletes a character."""

    def edit(self, word: str, place: int, random: Random) -> str:
        """See `_Edit`."""
        del random
        return word[:place] + word[place + 1 :]


@dataclass(frozen=True, kw_only=True)
class SubstituteCharacter(_Edit):
    """Puts a random letter in the place of a character.

    Attributes:
        letters: those that are put in.
    """

    letters: str = string.ascii_letters

    def edit(self, word: str, place: int, random: Random) -> str:
        """See `_Edit`."""
        return word[:place] + random.choice(self.letters) + word[place + 1 :]


@dataclass(frozen=True, kw_only=True)
class InsertCharacter(_Edit):
    """Puts a random letter before a character; as in the reference, never behind the last.

    Attributes:
        letters: those that are put in.
    """

    letters: str = string.ascii_letters

    def edit(self, word: str, place: int, random: Random) -> str:
        """See `_Edit`."""
        return word[:place] + random.choice(self.letters) + word[place:]


@dataclass(frozen=True, kw_only=True)
class InsertSpace(_Edit):
    """Splits a word in two by a space.

    Attributes:
        keep_first: not before the first character, for that changes no word.
        keep_last: not before the last.
    """

    keep_first: bool = True
    keep_last: bool = True

    def edit(self, word: str, place: int, random: Random) -> str:
        """See `_Edit`."""
        del random
        return f"{word[:place]} {word[place:]}"


@dataclass(frozen=True, kw_only=True)
class Homoglyphs(Misspelling):
    """Puts a character that looks the same in the place of one; a candidate for each place."""

    def misspell(self, word: str, random: Random) -> list[str]:
        """See `Misspelling`."""
        del random
        return [
            word[:place] + LOOK_ALIKE[character] + word[place + 1 :]
            for place, character in enumerate(word)
            if character in LOOK_ALIKE
        ]
