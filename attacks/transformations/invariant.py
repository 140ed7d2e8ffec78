"""Changes that should not change a prediction: other names, places, numbers, contractions.

Source: Ribeiro et al., "Beyond Accuracy: Behavioral Testing of NLP Models with CheckList", 2020,
section 2.2 (invariance tests). The paper and the reference find names and places by a model of
named entities and replace them from long lists. Here they are words of the short lists of
`attacks.resources.known_names`, written with a capital.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from attacks.composition import Job
from attacks.document import Candidate
from attacks.resources import known_names
from attacks.transformations.word_swap import WordSwap


@dataclass(frozen=True, kw_only=True)
class _Listed(WordSwap):
    """Replaces a word of a list by others of it.

    Attributes:
        count: random replacements of a word.
    """

    count: int = 3
    lists = tuple[frozenset[str], ...]()

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        for words in self.lists:
            if word in words:
                # Sorted: the order of a set differs between processes.
                names = sorted(words - {word})
                return random.sample(names, min(self.count, len(names)))
        return []


class OtherName(_Listed):
    """Replaces a first or last name by another."""

    lists = (known_names.FIRST_NAMES, known_names.LAST_NAMES)


class OtherPlace(_Listed):
    """Replaces a city, a country, or the adjective of one by another."""

    lists = (known_names.CITIES, known_names.COUNTRIES, known_names.PEOPLES)


@dataclass(frozen=True, kw_only=True)
class OtherNumber(WordSwap):
    """Replaces a whole number by others of its size, digits by digits and words by words.

    Like the reference it leaves 0, 2 and 4 alone, which often mean "to" and "for", and changes
    a number by up to its own value.

    Attributes:
        count: random replacements of a number.
    """

    count: int = 3

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        words = known_names.NUMBER_WORDS
        spelt = word.lower() in words
        if not spelt and not (word.isascii() and word.isdigit()):
            return []
        value = words.index(word.lower()) if spelt else int(word)
        # As in the reference: "2" and "4" are often words in short messages.
        if value in (0, 2, 4):
            return []
        most = 2 * value if not spelt else min(2 * value, len(words) - 1)
        draws = (random.randint(1, max(most, 2)) for _ in range(self.count))
        numbers = dict.fromkeys(other for other in draws if other != value)
        return [
            (words[number].capitalize() if word[0].isupper() else words[number])
            if spelt
            else str(number)
            for number in numbers
        ]


class Expand(WordSwap):
    """Writes a contraction in full: "isn't" becomes "is not"."""

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        full = known_names.EXPANSIONS.get(word) or known_names.EXPANSIONS.get(word.lower())
        return [] if full is None else [_cased(full, word)]


class Contract:
    """Joins two words: "is not" becomes "isn't"."""

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [self._of(job) for job in jobs]

    @staticmethod
    def _of(job: Job) -> list[Candidate]:
        contractions = []
        document, allowed = job.current, set(job.indices)
        for index in job.indices:
            if index + 1 not in allowed or (
                document.column_of(index) != document.column_of(index + 1)
            ):
                continue
            _, _, end = document.spans[index]
            column, start, _ = document.spans[index + 1]
            if document.columns[column][end:start] != " ":
                continue
            first, second = document.words[index], document.words[index + 1]
            # As written first: "I am" keeps its capital.
            pairs = ((first, second), (first.lower(), second.lower()))
            short = next(filter(None, map(known_names.CONTRACTIONS.get, pairs)), None)
            if short is not None:
                contractions.append(document.merge(index, _cased(short, first)))
        return contractions


def _cased(text: str, model: str) -> str:
    return text[0].upper() + text[1:] if model[0].isupper() else text
