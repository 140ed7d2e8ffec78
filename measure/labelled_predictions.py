"""Labelled predictions of one model: accuracy, and whether it predicts one class only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text.estimates import IntervalEstimate, wilson

COLLAPSED = 0.95
"""A model has collapsed if this share of the texts of all other classes gets its most frequent
prediction. Unlike a limit on the share of that class, this also fits data with a rare class."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Labelled predictions of one model.

    Attributes:
        labels: gold classes.
        predictions: classes.
    """

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
