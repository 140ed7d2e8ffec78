"""A bound of the edit distance in characters."""

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from attacks.composition import Group


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
        """Checks the settings."""
        if self.maximum < 0:
            msg = f"got maximum={self.maximum}, expected at least 0"
            raise ValueError(msg)

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        limit = self.maximum
        kept = []
        for group in groups:
            original = "\n".join(group.original.columns)
            kept.append(
                [
                    Levenshtein.distance(original, "\n".join(one.columns), score_cutoff=limit)
                    <= limit
                    for one in group.candidates
                ]
            )
        return kept
