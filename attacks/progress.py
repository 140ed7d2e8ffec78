"""Shows samples done, accuracy under attack, queries per second and time left."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from attacks.goals import Floats
from attacks.outcome import AttackRecord
from attacks.victims.kinds import Victim
from text import Text

_EVERY = 0.2
"""Seconds between two updates of the bar while no sample is done."""


class CountedVictim:
    """Counts the answers of a victim, whose other attributes are passed on.

    `after` is told the number of texts after each answer.
    """

    def __init__(self, victim: Victim, after: Callable[[int], None]) -> None:
        self._victim, self._after = victim, after
        self.name = victim.name

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        answer = self._victim.logits(texts)
        self._after(len(texts))
        return answer

    def probabilities(self, texts: Sequence[Text]) -> Floats | None:
        """See `CallableVictim`; None if the victim has none."""
        ask = getattr(self._victim, "probabilities", None)
        answer: Floats | None = None if ask is None else ask(texts)
        if answer is not None:
            self._after(len(texts))
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._victim, name)


class Progress:
    """Shows a bar on standard error, if that is a terminal and it is to be visible.

    It counts to `total` samples of this start; records of former ones are in the accuracy.
    """

    def __init__(
        self, total: int, name: str, *, before: Sequence[AttackRecord] = (), visible: bool = True
    ) -> None:
        from tqdm import tqdm  # type: ignore[import-untyped] # ships no annotations

        self.queries = 0
        self._started = self._shown = time.monotonic()
        self._done = self._standing = 0
        self._bar: Any = tqdm(
            total=total,
            desc=name,
            unit="sample",
            file=sys.stderr,
            dynamic_ncols=True,
            # None: where standard error is a terminal.
            disable=None if visible else True,
        )
        for record in before:
            self._count(record)

    def _count(self, record: AttackRecord) -> None:
        self._done += 1
        # Of all samples, so that skipped ones count as wrong.
        self._standing += record.right and record.outcome != "succeeded"

    def asked(self, texts: int) -> None:
        """Count answered texts."""
        self.queries += texts
        now = time.monotonic()
        if not self._bar.disable and now - self._shown > _EVERY:
            self._shown = now
            self._bar.set_postfix_str(self.figures())

    def add(self, record: AttackRecord) -> None:
        """Count a sample that is done."""
        self._count(record)
        self._bar.update(1)

    def figures(self) -> str:
        """Return the text behind the bar."""
        # A clock may stand still between two calls.
        seconds = max(time.monotonic() - self._started, 1e-9)
        accuracy = f"{self._standing / self._done:.3f}" if self._done else "?"
        return f"accuracy under attack {accuracy}, {self.queries / seconds:.0f} queries/s"

    def close(self) -> None:
        """Close the bar and leaves it on the screen."""
        self._bar.close()
