"""A bound of the number of words that differ from the original."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attacks.compat import Compat
from attacks.composition import Group
from attacks.document import Document
from attacks.outcome import words_changed


@dataclass(kw_only=True)
class WordsChanged:
    """Bounds the number of words that differ from the original.

    Source: Alzantot et al., 2018, section 4 (at most 20 % of the words); TextAttack's
    `MaxWordsPerturbed`.

    Attributes:
        share: share of the words of the original, rounded up; no bound if None.
        maximum: number of words; no bound if None.
        compat: the reference compares word by word up to the end of the shorter text, and takes
            the share of its words.
        cost: rank of its cost among the constraints, see `Constraint`.
    """

    share: float | None = None
    maximum: int | None = None
    compat: Compat = Compat.NONE
    cost: float = 1.5

    def __post_init__(self) -> None:
        """Raise ValueError for no bound, or one out of its range."""
        self.compat = Compat(self.compat)
        bounded = self.share is not None or self.maximum is not None
        if not bounded or not 0 <= (self.share or 0) <= 1 or (self.maximum or 0) < 0:
            msg = (
                f"got share={self.share}, maximum={self.maximum}, expected a share between 0 and 1 "
                "or a number of at least 0"
            )
            raise ValueError(msg)

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        return [
            [
                self.admits(group.original, group.current.accept(candidate, mark_all=True))
                for candidate in group.candidates
            ]
            for group in groups
        ]

    def admits(self, original: Document, changed: Document) -> bool:
        """Return True if a text differs from the original by few enough words."""
        if self.compat.compares_by_position:
            count = sum(a != b for a, b in zip(original.words, changed.words, strict=False))
        else:
            count = words_changed(original, changed, compat=self.compat)
        if self.maximum is not None and count > self.maximum:
            return False
        if self.share is None:
            return True
        words = len(original)
        if self.compat.compares_by_position:
            # The reference counts the words of the shorter text.
            words = min(words, len(changed))
        # Rounded up: a short text may change one word.
        return count <= math.ceil(words * self.share)
