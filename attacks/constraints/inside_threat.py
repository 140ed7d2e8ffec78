"""Keeps an attack inside the set of texts that a certificate speaks of."""

from collections.abc import Sequence
from dataclasses import dataclass

from attacks.composition import Group
from attacks.document import Document
from certify.threats import Threat


@dataclass
class InsideThreat:
    """Keeps the candidates that a threat allows.

    Candidates are compared with the original text, so that many small changes are one large one. A
    text that the threat says nothing about keeps none of its candidates. With lists for each text
    and position the text attacked has to be that of the lists.

    Attributes:
        threat: the set of texts around each text.
        cost: rank of its cost among the constraints, see `Constraint`.
    """

    threat: Threat
    cost: float = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError for a threat that is not about texts."""
        if self.threat.name == "l2":
            msg = "got the threat l2 for an attack on texts, expected synonyms, characters or words"
            raise ValueError(msg)

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`; a pair of texts is refused with a ValueError."""
        return [
            [self._inside(group.original, candidate.columns) for candidate in group.candidates]
            for group in groups
        ]

    def admits(self, original: Document, changed: Document) -> bool:
        """Return True if the threat allows a text with several changes; see `Context.admits`."""
        return self._inside(original, changed.columns)

    def _inside(self, document: Document, changed: tuple[str, ...]) -> bool:
        if len(changed) != 1:
            msg = "got pairs of texts for a threat, expected single texts"
            raise ValueError(msg)
        (original,) = document.columns
        # A threat with lists for each text speaks of these texts only.
        return self.threat.subject(original) == original and self.threat.contains(
            original, changed[0]
        )
