"""Replaces words by their synonyms."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from attacks.compat import Compat
from attacks.document import count_words, words_of
from attacks.transformations.case import in_case_of
from attacks.transformations.word_swap import WordSwap


class SynonymSource(Protocol):
    """Finds synonyms (`attacks.resources.wordnet.WordNet`)."""

    def synonyms(self, word: str) -> Sequence[str]:
        """Return the synonyms of a word in any case, and phrases joined by `_`."""


class WordNetSwap(WordSwap):
    """Replaces a word by the synonyms of all its senses, of any part of speech.

    Source: Ren et al., "Generating Natural Language Adversarial Examples through Probability
    Weighted Word Saliency" (PWWS), 2019, section 3.2.1. As in the reference, named entities are
    not replaced by those of other classes, which would need the training set.

    Args:
        wordnet: finds synonyms.
        compat: the reference leaves words in the case in which WordNet writes them, so that a
            sentence may begin with a small letter.
    """

    span = "listed"

    def __init__(self, wordnet: SynonymSource, *, compat: str = "none") -> None:
        self.wordnet, self.compat = wordnet, Compat(compat)
        self._known: dict[str, list[str]] = {}

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`; each word is looked up once."""
        if word not in self._known:
            self._known[word] = self._replace(word)
        return self._known[word]

    def _replace(self, word: str) -> list[str]:
        names = [name for name in self.wordnet.synonyms(word) if "_" not in name]
        if self.compat.unchanged_synonyms:
            words = [name for name in names if name != word and count_words(name) == 1]
        else:
            # A proper name keeps its capitals.
            cased = dict.fromkeys(in_case_of(n, word) if n.islower() else n for n in names)
            words = [name for name in cased if name != word and words_of(name) == [name]]
        return words
