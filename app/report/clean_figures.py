"""Confusion matrix, F1 of each class and calibration, from the records of single samples."""

import math
from collections.abc import Sequence
from typing import NamedTuple

BINS = 10
"""Bins of the reliability diagram, of equal width in confidence."""


class ClassFigures(NamedTuple):
    """The figures of a class; None where nothing is divided by nothing.

    Attributes:
        precision: share of the texts with this prediction that have this label.
        recall: share of the texts with this label that have this prediction.
        f1: harmonic mean of both.
        support: texts with this label.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    support: int


class Bin(NamedTuple):
    """A bin of the reliability diagram.

    Attributes:
        low: its texts have a confidence above this (the first bin: at least this).
        high: and of at most this.
        texts: number of its texts.
        confidence: their mean confidence; None in an empty bin.
        accuracy: share of them that is predicted rightly; None in an empty bin.
    """

    low: float
    high: float
    texts: int
    confidence: float | None
    accuracy: float | None


def confusion(
    labels: Sequence[int], predictions: Sequence[int], classes: int = 0
) -> list[list[int]]:
    """Returns `[C, C]` counts: a row for each label, a column for each prediction.

    Args:
        labels: `[N]` gold classes.
        predictions: `[N]` predicted classes.
        classes: number of classes; more rows follow where the samples have more.
    """
    size = max([classes, *(1 + one for one in (*labels, *predictions))])
    found = [[0] * size for _ in range(size)]
    for label, prediction in zip(labels, predictions, strict=True):
        found[label][prediction] += 1
    return found


def class_figures(counts: Sequence[Sequence[int]]) -> list[ClassFigures]:
    """Returns the figures of each class.

    Args:
        counts: `[C, C]`, see `confusion`.
    """
    found = []
    for i, row in enumerate(counts):
        right, labelled, predicted = row[i], sum(row), sum(other[i] for other in counts)
        found.append(
            ClassFigures(
                precision=_share(right, predicted),
                recall=_share(right, labelled),
                f1=_share(2 * right, labelled + predicted),
                support=labelled,
            )
        )
    return found


def macro_f1(figures: Sequence[ClassFigures]) -> float | None:
    """Returns the mean F1 of the classes that occur as a label or a prediction."""
    known = [one.f1 for one in figures if one.f1 is not None]
    return math.fsum(known) / len(known) if known else None


def confidence(logits: Sequence[float]) -> float:
    """Returns the largest probability of a softmax.

    Args:
        logits: `[C]`, finite.
    """
    top = max(logits)
    return 1 / math.fsum(math.exp(one - top) for one in logits)


def reliability(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[Bin]:
    """Returns the bins of the reliability diagram (Guo et al., 2017, section 2).

    Args:
        confidences: `[N]` probabilities of the predicted classes, 0 to 1.
        right: `[N]` True where the prediction is right.
        bins: number of bins of equal width.
    """
    members: list[list[int]] = [[] for _ in range(bins)]
    for i, one in enumerate(confidences):
        members[max(0, min(bins - 1, math.ceil(one * bins) - 1))].append(i)
    found = []
    for m, own in enumerate(members):
        mean = math.fsum(confidences[i] for i in own) / len(own) if own else None
        hits = _share(sum(right[i] for i in own), len(own))
        found.append(Bin(m / bins, (m + 1) / bins, len(own), mean, hits))
    return found


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Returns the expected calibration error: the mean over texts of their bin's gap.

    Args:
        bins: see `reliability`; the gap of a bin is the distance of confidence from accuracy.
    """
    count = sum(one.texts for one in bins)
    gaps = (
        one.texts * abs(one.accuracy - one.confidence)
        for one in bins
        if one.accuracy is not None and one.confidence is not None
    )
    return math.fsum(gaps) / count if count else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
