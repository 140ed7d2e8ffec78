"""Edits of characters."""

from dataclasses import dataclass
from typing import ClassVar

from rapidfuzz.distance import Levenshtein

from certify.threats.threat import Threat, ThreatName


@dataclass(frozen=True, kw_only=True)
class Characters(Threat):
    """Texts within a Levenshtein distance of k.

    An edit inserts, deletes or replaces one character of the raw string: any character
    of Unicode, before any normalisation. `words` has no influence on the set.
    """

    name: ClassVar[ThreatName] = "characters"

    k: int | None = 1

    def contains(self, original: str, changed: str) -> bool:
        """See `Threat`."""
        assert self.k is not None  # __post_init__ made sure
        return Levenshtein.distance(original, changed, score_cutoff=self.k) <= self.k

    @property
    def statement(self) -> str:
        """See `Threat`."""
        return (
            f"at most {self.k} characters are inserted, deleted or replaced, each by any character "
            "of Unicode"
        )

    @property
    def condition(self) -> str:
        """See `Threat`."""
        changed = "1 character" if self.k == 1 else f"{self.k} characters"
        return f"against {changed} inserted, deleted or replaced by any others"
