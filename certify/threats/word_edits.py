"""Edits of words."""

from dataclasses import dataclass
from typing import ClassVar

from rapidfuzz.distance import Levenshtein

from certify.threats.threat import Threat, ThreatName


@dataclass(frozen=True, kw_only=True)
class WordEditDistance(Threat):
    """Texts whose words are within a Levenshtein distance of k: any word for any other.

    Case, spaces and what else does not change the words of a text is free.
    """

    name: ClassVar[ThreatName] = "words"

    k: int | None = 1

    def contains(self, original: str, changed: str) -> bool:
        """See `Threat`."""
        assert self.k is not None  # __post_init__ made sure
        words = self.split(original), self.split(changed)
        # A cutoff makes it faster: distances above k are k + 1.
        return Levenshtein.distance(*words, score_cutoff=self.k) <= self.k

    @property
    def statement(self) -> str:
        """See `Threat`."""
        return f"at most {self.k} words are inserted, deleted or replaced, each by any word"

    @property
    def condition(self) -> str:
        """See `Threat`."""
        changed = "1 word" if self.k == 1 else f"{self.k} words"
        return f"against {changed} inserted, deleted or replaced by any others"
