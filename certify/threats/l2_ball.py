"""Moves of embedded tokens."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from certify.threats.threat import Threat, ThreatName


@dataclass(frozen=True, kw_only=True)
class L2(Threat):
    """Embedded tokens within an l2 distance: the threat of `certify.Certifier`.

    It is not a set of texts, so an attack on texts cannot be held inside it. The radius is the
    Frobenius norm of the change of all embedded tokens together.
    """

    name: ClassVar[ThreatName] = "l2"
    endless: ClassVar[bool] = True

    k: int | None = None
    radius: float = 0.0

    def __post_init__(self) -> None:
        """Raise a ValueError for a negative or infinite radius, or a number of changes."""
        super().__post_init__()
        if not 0 <= self.radius < math.inf or self.k is not None:
            msg = f"got radius={self.radius} and k={self.k}, expected a finite radius >= 0 and no k"
            raise ValueError(msg)

    def contains(self, original: str, changed: str) -> bool:
        """Raise ValueError: the set has no texts."""
        msg = "got texts for the threat l2, expected synonyms, characters or words: it has no texts"
        raise ValueError(msg)

    @property
    def content(self) -> Any:
        """See `Threat`."""
        return [self.name, self.radius]

    @property
    def statement(self) -> str:
        """See `Threat`."""
        return f"embedded tokens move by less than {self.radius} in Frobenius norm"
