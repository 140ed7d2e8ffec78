"""A victim that detects its positive class at a threshold, and not by the largest logit."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attacks.goals import Floats
from attacks.victims.kinds import Victim, VictimError, about_victim
from text import Text, check_range

_ROUNDING = 1e-9
"""Log-odds: a service that rounds its probabilities to the threshold itself detects the text."""


class ThresholdVictim:
    """Shifts the logit of the positive class of a victim, so that the argmax decides as it does.

    A text is detected if the probability of the positive class is at least the threshold. The
    margin of the positive logit becomes its log-odds minus those of the threshold. Probabilities of
    the victim are not asked for any more: they know nothing of the threshold.

    Args:
        victim: the victim; its other attributes are passed on.
        positive: index of the class that is detected.
        threshold: probability, in ]0, 1[.

    Raises:
        ValueError: a threshold out of its range.
        VictimError: the victim gives no scores.
    """

    def __init__(self, victim: Victim, positive: int, threshold: float) -> None:
        check_range({"threshold": threshold}, above=0, below=1)
        if getattr(victim, "labels_only", False):
            msg = (
                f"got threshold {threshold} for {victim.name}, which names classes and gives no "
                "scores, expected none: leave --attack.threshold out"
            )
            raise VictimError(msg)
        self._victim, self.positive, self.threshold = victim, positive, threshold
        self.name = victim.name

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        return self._shifted(self._victim.logits(texts))

    def again(self, texts: Sequence[Text]) -> Floats | None:
        """See `Victim`."""
        logits: Floats | None = getattr(self._victim, "again", self._victim.logits)(texts)
        return None if logits is None else self._shifted(logits)

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        own = {"positive": self.positive, "threshold": self.threshold}
        return {**about_victim(self._victim), **own}

    def __getattr__(self, name: str) -> Any:
        if name == "probabilities":
            raise AttributeError(name)
        return getattr(self._victim, name)

    def _shifted(self, logits: Floats) -> Floats:
        from scipy.special import logsumexp  # slow to load, and most victims have no threshold

        rivals = np.delete(logits, self.positive, axis=1)
        log_odds = logits[:, self.positive] - logsumexp(rivals, axis=1)
        # `log1p` keeps the digits of a threshold close to 0.
        cut = math.log(self.threshold) - math.log1p(-self.threshold)
        shifted = logits.copy()
        # With more than two classes, the largest other logit is not all that the others have.
        shifted[:, self.positive] = rivals.max(axis=1) + log_odds - cut + _ROUNDING
        return shifted
