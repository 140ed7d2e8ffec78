"""Words that share a sense with a word."""

from collections.abc import Sequence
from typing import Protocol

from attacks.composition import Job
from attacks.document import Candidate, count_words, words_of
from attacks.goals import Compat
from attacks.transformations.case import in_case_of


class Synonyms(Protocol):
    """What knows the synonyms of a word (`attacks.resources.wordnet.WordNet`)."""

    def synonyms(self, word: str) -> Sequence[str]:
        """Those of a word in any case; phrases joined by `_` may be among them."""


class WordNetSwap:
    """Replaces a word by the synonyms of all its senses, of any part of speech.

    Source: Ren et al., "Generating Natural Language Adversarial Examples through Probability
    Weighted Word Saliency" (PWWS), 2019, section 3.2.1. As in the reference, named entities are
    not exchanged for those of other classes (there one looks into the training set).

    Args:
        wordnet: where synonyms come from.
        compat: the reference leaves words in the case in which WordNet writes them, so that a
            sentence may begin with a small letter.
    """

    def __init__(self, wordnet: Synonyms, *, compat: Compat = "none") -> None:
        self.wordnet, self.compat = wordnet, compat
        self._replacements: dict[str, list[str]] = {}

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        known = self._replacements
        proposed = []
        for job in jobs:
            candidates: list[Candidate] = []
            for index in job.indices:
                word = job.current.words[index]
                found = known[word] if word in known else self._replace(word)
                candidates += job.current.replace_by(index, found)
            proposed.append(candidates)
        return proposed

    def _replace(self, word: str) -> list[str]:
        """What may stand in the place of a word."""
        names = [name for name in self.wordnet.synonyms(word) if "_" not in name]
        if self.compat == "textattack":
            words = [name for name in names if name != word and count_words(name) == 1]
        else:
            cased = dict.fromkeys(_restored(name, word) for name in names)
            words = [one for one in cased if one != word and words_of(one) == [one]]
        self._replacements[word] = words
        return words


def _restored(name: str, word: str) -> str:
    """A name in the case of the word it replaces; the capitals of a proper name stay."""
    return in_case_of(name, word) if name.islower() else name
