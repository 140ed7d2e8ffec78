"""Greedy search that changes each word in several ways, one after the other.

Source: Garg and Ramakrishnan (BAE), 2020, section 3: BAE-R+I first replaces a word, then inserts
one next to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from attacks.search import Greedy


@dataclass(frozen=True, kw_only=True)
class StagedGreedy(Greedy):
    """Ranks the words once; at each of them it takes the best candidate of every stage in turn.

    Attributes:
        stages: parts of the transformation (`attacks.transformations.Stages`).
    """

    stages: int = 2

    def _visits(self, order: Sequence[int]) -> list[tuple[int, int]]:
        return [(index, stage) for index in order for stage in range(self.stages)]
