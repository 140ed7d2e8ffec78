"""Words near a word in the space of word vectors."""

from collections.abc import Sequence

from attacks.composition import Job
from attacks.document import Candidate, words_of
from attacks.goals import Compat
from attacks.resources.neighbours import Neighbours
from attacks.transformations.case import in_case_of


class EmbeddingSwap:
    """Replaces a word by the nearest words of its vector, in its own case.

    Source: Jin et al., "Is BERT Really Robust?" (TextFooler), 2020, step 2, "Synonym Extraction".
    Words without a vector are left alone.

    Args:
        neighbours: nearest words of each word.
        k: how many of them.
        compat: the reference also puts in what is no word (GloVe has a vector for ","), or several.
    """

    def __init__(self, neighbours: Neighbours, k: int = 50, *, compat: Compat = "none") -> None:
        if k < 1:
            msg = f"got {k=}, expected at least 1"
            raise ValueError(msg)
        self.neighbours, self.k, self.compat = neighbours, k, compat
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
        near = self.neighbours.of(word.lower(), self.k)
        words = [other for other in (in_case_of(one, word) for one in near) if other != word]
        if self.compat != "textattack":
            words = [one for one in dict.fromkeys(words) if words_of(one) == [one]]
        self._replacements[word] = words
        return words
