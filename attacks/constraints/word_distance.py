"""Keeps replacements whose word vector is at a small distance."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from attacks.compat import Compat
from attacks.composition import Group
from attacks.constraints.words import WordReplacements, keep_words
from attacks.document import Document
from attacks.resources.vectors import WordVectors


class WordDistance:
    """Bounds the squared Euclidean distance between the vectors of a word and its replacement.

    Source: Alzantot et al., 2018, section 4: "a maximum distance of 0.5". Their code and TextAttack
    take the squared distance; of the counter-fitted vectors, whose length is 1, 0.5 is a cosine of
    0.75. Words without a vector are kept. Without vectors all single words are kept.

    Args:
        vectors: None if there are none.
        maximum: squared distance.
        against: `original`: the word of the text that is attacked, so that meaning cannot drift
            away step by step; `current`: that of the text before the change.
        compat: see `WordSimilarity`.

    Raises:
        ValueError: a negative distance.
    """

    cost = 2.0

    def __init__(
        self,
        vectors: WordVectors | None,
        maximum: float = 0.5,
        *,
        against: Literal["original", "current"] = "original",
        compat: str = "none",
    ) -> None:
        if maximum < 0:
            msg = f"got {maximum=}, expected a squared distance of at least 0"
            raise ValueError(msg)
        self.vectors, self.maximum, self.against = vectors, maximum, against
        self.compat = Compat(compat)

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        return keep_words(groups, self.compat, self._near)

    def _near(self, group: Group, slot: WordReplacements) -> list[bool]:
        vectors, new = self.vectors, slot.new
        old = slot.old if self.against == "current" else _first(group, slot.at)
        old_row = None if vectors is None else vectors.index.get(old.lower())
        if vectors is None or old_row is None:
            return [True] * len(new)
        rows = [vectors.index.get(word.lower()) for word in new]
        return [
            row is None
            or float(np.square(vectors.matrix[row] - vectors.matrix[old_row]).sum()) <= self.maximum
            for row in rows
        ]


def _first(group: Group, index: int) -> str:
    """Return the word of the original at the position of a word of the current text."""
    original: Document = group.original
    number = group.current.origin[index] if index < len(group.current.origin) else -1
    return original.words[number] if 0 <= number < len(original) else group.current.words[index]
