"""`I/N`: one of N parts of a job, each for a machine of its own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

T = TypeVar("T")

_FORM = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True)
class Shard:
    """One part of a job.

    Attributes:
        index: which one, from 1.
        count: number of parts.
    """

    index: int
    count: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Reads `I/N`.

        Raises:
            ValueError: anything else, or an I that is not from 1 to N.
        """
        found = _FORM.fullmatch(text)
        index, count = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= index <= count:
            msg = f"got shard {text!r}, expected I/N with I from 1 to N: 2/7 is the second of seven"
            raise ValueError(msg)
        return cls(index, count)

    def take(self, every: Sequence[T]) -> list[T]:
        """Returns every N-th item from the I-th on."""
        return list(every[self.index - 1 :: self.count])

    def size(self, total: int) -> int:
        """Returns the number of items that `take` returns of `total`."""
        return len(range(self.index - 1, total, self.count))

    def suffix(self) -> str:
        """Returns what the names of its files end with, before their kind."""
        return f"shard-{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
