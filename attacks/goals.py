"""Goals of attacks, and scores that measure how near a prediction is."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attacks.compat import Compat
from text import check_range

Score = Literal["margin", "probability"]
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

NEAR = {"margin": 1e-5, "probability": 1e-6}
"""Scores nearer than this, times the scale of the victim's logits, count as equal; see `tie`.

Logits in single precision depend in the sixth digit on what else is in the batch; with ties broken
by text, searches do not. Success is no matter of ties: it is the argmax."""


class Goal(Protocol):
    """Decides when an attack has succeeded."""

    @property
    def score(self) -> Score:
        """The kind of its scores."""

    def judge(
        self, logits: Floats, labels: Labels, *, probabilities: Floats | None = None
    ) -> Floats:
        """Return `[n]` scores of `[n, C]` logits with n gold labels; larger is nearer.

        `probabilities` are those of the victim, if it gives some.
        """

    def reached(
        self, logits: Floats, labels: Labels, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """Return `[n]` bool, True where the prediction reaches the goal; see `judge`."""


def top_margins(logits: Floats) -> Floats:
    """Return `[n]` differences between the two largest of `[n, C]` logits.

    The largest margin over the texts of a sample is the scale of a victim's logits. Other
    differences do not measure it: models that exclude a class give it a logit of -1e9.
    """
    # The two largest are last, without a full sort.
    top = np.partition(logits, -2, axis=1)
    differences: Floats = top[:, -1] - top[:, -2]
    return differences


def tie(score: Score, scale: float) -> float:
    """Return the difference below which scores of a victim of this scale are equal."""
    # Probabilities follow small logits in proportion, and are 1 at most.
    return NEAR[score] * (scale if score == "margin" else min(scale, 1.0))


def probabilities(logits: Floats) -> Floats:
    """Return the softmax over classes, `[n, C]`."""
    from scipy.special import softmax  # no prediction needs scipy, which is slow to load

    normalised: Floats = softmax(logits, axis=1)
    return normalised


def logarithms(shares: Floats) -> Floats:
    """Return logits of probabilities, `[n, C]`."""
    # A probability of 0 would give minus infinity.
    logits: Floats = np.log(np.maximum(shares, 1e-300))
    return logits


def _pick(logits: Floats, classes: Labels) -> Floats:
    picked: Floats = np.take_along_axis(logits, classes[:, None], axis=1)[:, 0]
    return picked


def _probability(logits: Floats, classes: Labels, rows: Floats | None) -> Floats:
    return _pick(probabilities(logits) if rows is None else rows, classes)


def _best_other(logits: Floats, classes: Labels) -> Floats:
    other_logits = logits.copy()
    # The gold class must not be its own rival.
    np.put_along_axis(other_logits, classes[:, None], -np.inf, axis=1)
    best: Floats = other_logits.max(axis=1)
    return best


@dataclass(frozen=True, kw_only=True, slots=True)
class _OfClass:
    """A goal about one class of each text: the gold one, unless a subclass names another."""

    score: Score = "margin"

    def _classes(self, logits: Floats, labels: Labels) -> Labels:
        return labels


@dataclass(frozen=True, kw_only=True, slots=True)
class Untargeted(_OfClass):
    """Any class but the gold one.

    Attributes:
        score: `margin`, the largest other logit minus the gold one; or `probability`, 1 minus that
            of the gold class, which is constant 0 where the victim is very confident.
    """

    def judge(
        self, logits: Floats, labels: Labels, *, probabilities: Floats | None = None
    ) -> Floats:
        """See `Goal`."""
        classes = self._classes(logits, labels)
        if self.score == "probability":
            return 1 - _probability(logits, classes, probabilities)
        return _best_other(logits, classes) - _pick(logits, classes)

    def reached(
        self, logits: Floats, labels: Labels, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """See `Goal`."""
        moved: NDArray[np.bool_] = logits.argmax(axis=1) != self._classes(logits, labels)
        return moved


@dataclass(frozen=True, kw_only=True)
class Unsure(Untargeted):
    """A probability of the gold class below a bound, for any prediction.

    Source: Kuleshov et al., "Adversarial Examples for Natural Language Classification Problems",
    2018, as TextAttack 0.3.11 reads its bound of 0.7 (`target_max_score`).

    Attributes:
        bound: the probability, in ]0, 1].
    """

    bound: float = 0.7

    def __post_init__(self) -> None:
        """Raise ValueError for a bound out of ]0, 1]."""
        check_range({"bound": self.bound}, above=0, most=1)

    def reached(
        self, logits: Floats, labels: Labels, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """See `Goal`."""
        low: NDArray[np.bool_] = _probability(logits, labels, probabilities) < self.bound
        return low


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reach(_OfClass):
    """The prediction of the class."""

    def judge(
        self, logits: Floats, labels: Labels, *, probabilities: Floats | None = None
    ) -> Floats:
        """See `Goal`."""
        classes = self._classes(logits, labels)
        if self.score == "probability":
            return _probability(logits, classes, probabilities)
        return _pick(logits, classes) - _best_other(logits, classes)

    def reached(
        self, logits: Floats, labels: Labels, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """See `Goal`."""
        hit: NDArray[np.bool_] = logits.argmax(axis=1) == self._classes(logits, labels)
        return hit


@dataclass(frozen=True, kw_only=True, slots=True)
class Targeted(_Reach):
    """One class, for any gold class.

    Attributes:
        target: the class.
        score: `margin`, its logit minus the largest other one; or `probability`, its own.
    """

    target: int

    def _classes(self, logits: Floats, labels: Labels) -> Labels:
        if not 0 <= self.target < logits.shape[1]:
            msg = f"got target class {self.target}, expected 0 ... {logits.shape[1] - 1}"
            raise ValueError(msg)
        return np.full(len(logits), self.target)


@dataclass(frozen=True, kw_only=True)
class Evade(Untargeted):
    """Any class but the positive one of a detector.

    Texts of the other classes reach it as they are, and are skipped: only detections count.

    Attributes:
        positive: the class that is detected.
    """

    positive: int

    def _classes(self, logits: Floats, labels: Labels) -> Labels:
        return np.full(len(logits), self.positive)


@dataclass(frozen=True, kw_only=True)
class Force(Targeted):
    """The positive class of a detector, for texts of the others: a false alarm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unchanged(_Reach):
    """The gold class, although words are gone: texts that reach it lack words that a reader needs.

    Attributes:
        score: `margin`, the gold logit minus the largest other one; or `probability`, its own.
    """


def make_goal(
    target: int | None = None, *, score: Score | None = None, compat: str = "none"
) -> Goal:
    """Return the goal of an attack: to reach the class `target`, or any but the gold one if None.

    Without a score it is the margin; the probability for the reference.
    """
    score = score or ("probability" if Compat(compat).probability_scores else "margin")
    return Untargeted(score=score) if target is None else Targeted(target=target, score=score)
