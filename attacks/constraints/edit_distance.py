"""A bound of the edit distance in characters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from attacks.composition import Group
from attacks.document import Candidate, Document


@dataclass
class EditDistance:
    """Bounds the edit distance in characters between the whole text and the original.

    Source: Gao et al. (DeepWordBug), 2018, section 3.

    Attributes:
        maximum: characters inserted, deleted or replaced at most.
        cost: rank of its cost among the constraints, see `Constraint`.
    """

    maximum: int
    cost: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.maximum < 0:
            msg = f"got maximum={self.maximum}, expected at least 0"
            raise ValueError(msg)

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`.

        The triangle inequality spares most comparisons of whole texts: a candidate is at most as
        far from the original as the text that it changes, plus the change.
        """
        verdicts = []
        for group in groups:
            original = "\n".join(group.original.columns)
            # Characters that may change on top of the changes so far.
            room = self.maximum - self._distance(original, group.current.columns)
            verdicts.append(
                [
                    _change(group.current, candidate) <= room
                    or self._distance(original, candidate.columns) <= self.maximum
                    for candidate in group.candidates
                ]
            )
        return verdicts

    def admits(self, original: Document, changed: Document) -> bool:
        """Return True if a text with several changes is near enough; see `Context.admits`."""
        return self._distance("\n".join(original.columns), changed.columns) <= self.maximum

    def _distance(self, original: str, columns: Sequence[str]) -> int:
        """Return the distance of whole texts; one more than the maximum if it is larger."""
        return Levenshtein.distance(original, "\n".join(columns), score_cutoff=self.maximum)


def _change(document: Document, candidate: Candidate) -> float:
    """Return an upper bound of the distance of a candidate from a document.

    It is infinite where the candidate was made from another document, merges words, or names no
    replacement: any part of the text may then be another.
    """
    if candidate.base is not document or candidate.width > 1 or not candidate.word:
        return math.inf
    old = len(document.words[candidate.index]) if candidate.width else 0
    # The space next to a word goes or comes with it.
    # [old word] -> [new word]: at most one edit per character of the longer one.
    return max(old, len(candidate.word)) + 1
