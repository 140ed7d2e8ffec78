"""Labelled predictions of one model: accuracy, collapse, confusion matrix, F1 and calibration."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from text.estimates import IntervalEstimate, wilson

COLLAPSED = 0.95
"""A model has collapsed if this share of the texts of all other classes gets its most frequent
prediction. Unlike a limit on the share of that class, this also fits data with a rare class."""
BINS = 10
"""Bins of the reliability diagram, of equal width in confidence."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Labelled predictions of one model: gold and predicted classes."""

    labels: Sequence[int]
    predictions: Sequence[int]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> "Predictions":
        """Return the predictions of records."""
        pairs = [(int(record["label"]), int(record["prediction"])) for record in records]
        return cls(labels=[label for label, _ in pairs], predictions=[p for _, p in pairs])

    @property
    def largest(self) -> tuple[int, float]:
        """The most frequent prediction, and its share."""
        return most_frequent(self.predictions)

    @property
    def accuracy(self) -> IntervalEstimate:
        """Share of right predictions."""
        pairs = zip(self.labels, self.predictions, strict=True)
        return wilson(sum(label == p for label, p in pairs), len(self.labels))

    @property
    def balanced(self) -> float:
        """Mean over the classes of the share of right predictions."""
        pairs = zip(self.labels, self.predictions, strict=True)
        return class_mean(self.labels, [label == p for label, p in pairs])

    @property
    def majority(self) -> tuple[int, float]:
        """The most frequent gold class, and its share: the accuracy of always predicting it."""
        return most_frequent(self.labels)

    @property
    def absorbed(self) -> float:
        """Share of the texts of all other classes that get the most frequent prediction."""
        largest = self.largest[0]
        pairs = zip(self.labels, self.predictions, strict=True)
        rest = [prediction == largest for label, prediction in pairs if label != largest]
        return sum(rest) / len(rest) if rest else 1.0

    @property
    def collapsed(self) -> bool:
        """True if the model predicts one class for nearly all texts, see `COLLAPSED`."""
        return self.absorbed >= COLLAPSED


def class_mean(labels: Sequence[int], hits: Sequence[bool]) -> float:
    """Return the mean over the classes of the share of hits."""
    shares = []
    for label in set(labels):
        own = [hit for y, hit in zip(labels, hits, strict=True) if y == label]
        shares.append(sum(own) / len(own))
    return sum(shares) / len(shares)


def most_frequent(classes: Sequence[int]) -> tuple[int, float]:
    """Return the most frequent class, the first of several, and its share."""
    chosen = max(sorted(set(classes)), key=classes.count)
    return chosen, classes.count(chosen) / len(classes)


# Confusion matrix and calibration


class ClassFigures(NamedTuple):
    """The figures of a class with `support` texts; None for 0 / 0."""

    precision: float | None
    recall: float | None
    f1: float | None
    support: int


class Bin(NamedTuple):
    """A bin of confidences above `low` (the first: from `low`), up to `high`; None if empty."""

    low: float
    high: float
    texts: int
    confidence: float | None
    accuracy: float | None


def confusion(
    labels: Sequence[int], predictions: Sequence[int], classes: int = 0
) -> list[list[int]]:
    """Return `[C, C]` counts: a row for each label, a column for each prediction."""
    size = max([classes, *(1 + index for index in (*labels, *predictions))])
    counts = [[0] * size for _ in range(size)]
    for label, prediction in zip(labels, predictions, strict=True):
        counts[label][prediction] += 1
    return counts


def class_figures(counts: Sequence[Sequence[int]]) -> list[ClassFigures]:
    """Return the figures of each class from `[C, C]` counts, see `confusion`."""
    figures = []
    for i, row in enumerate(counts):
        right, labelled, predicted = row[i], sum(row), sum(other[i] for other in counts)
        figures.append(
            ClassFigures(
                precision=_share(right, predicted),
                recall=_share(right, labelled),
                f1=_share(2 * right, labelled + predicted),
                support=labelled,
            )
        )
    return figures


def macro_f1(figures: Sequence[ClassFigures]) -> float | None:
    """Return the mean F1 of the classes that occur as a label or a prediction."""
    scores = [figure.f1 for figure in figures if figure.f1 is not None]
    return math.fsum(scores) / len(scores) if scores else None


def confidence(logits: Sequence[float]) -> float:
    """Return the largest probability of the softmax of `[C]` finite logits."""
    top = max(logits)
    # exp(top - top) = 1, so that nothing overflows.
    return 1 / math.fsum(math.exp(logit - top) for logit in logits)


def reliability(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[Bin]:
    """Return the bins of the reliability diagram (Guo et al., 2017, section 2), of equal width."""
    members: list[list[int]] = [[] for _ in range(bins)]
    for i, value in enumerate(confidences):
        # Bin m is the interval (m / bins, (m + 1) / bins]; 0 is in the first bin.
        members[max(0, min(bins - 1, math.ceil(value * bins) - 1))].append(i)
    diagram = []
    for m, texts in enumerate(members):
        mean = math.fsum(confidences[i] for i in texts) / len(texts) if texts else None
        hits = _share(sum(right[i] for i in texts), len(texts))
        diagram.append(Bin(m / bins, (m + 1) / bins, len(texts), mean, hits))
    return diagram


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Return the expected calibration error: the mean over texts of the gap of their bin."""
    count = sum(b.texts for b in bins)
    gaps = (
        b.texts * abs(b.accuracy - b.confidence)
        for b in bins
        if b.accuracy is not None and b.confidence is not None
    )
    return math.fsum(gaps) / count if count else None


def _share(part: int, total: int) -> float | None:
    return part / total if total else None
