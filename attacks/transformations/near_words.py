"""Replaces words by their nearest neighbours among word vectors."""

from random import Random

from attacks.compat import Compat
from attacks.document import words_of
from attacks.resources.neighbours import Neighbours
from attacks.transformations.case import in_case_of
from attacks.transformations.word_swap import WordSwap


class EmbeddingSwap(WordSwap):
    """Replaces a word by the nearest words of its vector, in its own case.

    Source: Jin et al., "Is BERT Really Robust?" (TextFooler), 2020, step 2, "Synonym Extraction".
    Words without a vector are left alone.

    Args:
        neighbours: nearest words of each word.
        k: number of neighbours.
        compat: the reference also takes marks (",") and neighbours of several words.
    """

    span = "listed"

    def __init__(self, neighbours: Neighbours, k: int = 50, *, compat: str = "none") -> None:
        if k < 1:
            msg = f"got {k=}, expected at least 1"
            raise ValueError(msg)
        self.neighbours, self.k, self.compat = neighbours, k, Compat(compat)
        self._known: dict[str, list[str]] = {}

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`; each word is looked up once."""
        if word not in self._known:
            self._known[word] = self._replace(word)
        return self._known[word]

    def _replace(self, word: str) -> list[str]:
        near = self.neighbours.of(word.lower(), self.k)
        words = [
            other for other in (in_case_of(neighbour, word) for neighbour in near) if other != word
        ]
        if not self.compat.unfiltered_neighbours:
            words = [other for other in dict.fromkeys(words) if words_of(other) == [other]]
        return words
