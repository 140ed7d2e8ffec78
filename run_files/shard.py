"""`I/N`: part I of a job that is divided among N machines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

T = TypeVar("T")

_FORM = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True)
class Shard:
    """One part of a job."""

    index: int  # from 1
    count: int  # number of parts

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse `I/N`.

        Raises:
            ValueError: another form, or I is not from 1 to N.
        """
        match = _FORM.fullmatch(text)
        index, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= index <= count:
            msg = f"got shard {text!r}, expected I/N with I from 1 to N: 2/7 is the second of seven"
            raise ValueError(msg)
        return cls(index, count)

    def take(self, items: Sequence[T]) -> list[T]:
        """Return every N-th item from the I-th on."""
        # Interleaved, so that a prefix of the samples is shared evenly.
        return list(items[self.index - 1 :: self.count])

    def size(self, total: int) -> int:
        """Return the number of items that `take` returns of `total`."""
        return len(range(self.index - 1, total, self.count))

    def suffix(self) -> str:
        """Return the end of the names of its files, before their extension."""
        return f"shard-{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
