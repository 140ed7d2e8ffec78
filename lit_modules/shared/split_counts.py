"""Counts over a test split: its largest classes, and the calibration of the probabilities."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from lit_modules.shared.detection import DetectionCurve, detection_figures

BINS = 10
"""Bins of the calibration error, of equal width in confidence, as in the report."""


class SplitCounts(Metric):
    """Counts labels and predictions of a classification, and sums confidences.

    Args:
        classes: number of classes.
    """

    full_state_update = False
    higher_is_better = None

    confusion: Tensor
    confidence: Tensor
    right: Tensor
    squares: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        shapes = {"confusion": (classes, classes), "confidence": (BINS,), "right": (BINS,)}
        for name, shape in {**shapes, "squares": ()}.items():
            self.add_state(name, torch.zeros(shape), dist_reduce_fx="sum")

    def update(self, logits: Tensor, labels: Tensor, unshifted: Tensor | None = None) -> None:
        """Add samples.

        Args:
            logits: `[B, C]`.
            labels: `[B]` classes.
            unshifted: `[B, C]`: logits of a detector without its threshold, for the calibration.
        """
        for name in self._defaults:
            # Precision bf16-true casts the states, too; bfloat16 cannot count beyond 256.
            setattr(self, name, getattr(self, name).float())
        probabilities = (logits if unshifted is None else unshifted).float().softmax(dim=1)
        confidence, likeliest = probabilities.max(dim=1)
        # Bin m is the interval (m / BINS, (m + 1) / BINS].
        bins = ((confidence * BINS).ceil().long() - 1).clamp(0, BINS - 1)
        cells = labels * self.classes + logits.argmax(dim=1)
        self.confusion += cells.bincount(minlength=self.classes**2).view_as(self.confusion)
        self.confidence.index_add_(0, bins, confidence)
        self.right.index_add_(0, bins, (likeliest == labels).float())
        gold = torch.nn.functional.one_hot(labels, self.classes)
        self.squares += (probabilities - gold).square().sum()

    def compute(self) -> dict[str, Tensor]:
        """Return scalars by their names, see docs/verdict.md.

        `samples`, `majority_accuracy`, `largest_class`, `absorbed`, `ece` (Guo et al., 2017,
        equation 3) and `brier` (Brier, 1950: from 0 to 2).
        """
        samples = self.confusion.sum()
        count = samples.clamp_min(1)
        predicted = self.confusion.sum(dim=0)
        largest = predicted.argmax()
        of_others = samples - self.confusion[largest].sum()
        absorbed = predicted[largest] - self.confusion[largest, largest]
        # Without texts of other classes nothing shows that the model can predict another one.
        absorbed = torch.where(of_others > 0, absorbed / of_others.clamp_min(1), 1.0)
        return {
            "samples": samples,
            "majority_accuracy": self.confusion.sum(dim=1).max() / count,
            "largest_class": predicted[largest] / count,
            "absorbed": absorbed,
            "ece": (self.confidence - self.right).abs().sum() / count,
            "brier": self.squares / count,
        }


class DetectionScores(Metric):
    """Collects the scores of a detector over a split."""

    full_state_update = False
    higher_is_better = None

    scores: list[Tensor]
    positive: list[Tensor]
    lengths: list[Tensor]
    points: list[tuple[float, float, float]]
    """False alarms, recall and precision of some thresholds, since `compute`."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("scores", "positive", "lengths"):
            self.add_state(name, [], dist_reduce_fx="cat")
        self.points = []

    def update(self, scores: Tensor, positive: Tensor, lengths: Tensor) -> None:
        """Add samples, see `detection_figures`."""
        # One kind of number for all: processes exchange them as one tensor each.
        self.scores.append(scores.double())
        self.positive.append(positive.double())
        self.lengths.append(lengths.double())

    def compute(self) -> dict[str, Tensor]:
        """Return scalars by their names, see `detection_figures`."""
        # Lists, and tensors where several processes have joined theirs.
        parts: tuple[Any, ...] = (self.scores, self.positive, self.lengths)
        scores, positive, lengths = (
            (torch.cat(list(part)) if isinstance(part, list) else part).cpu() for part in parts
        )
        self.points = DetectionCurve.of(scores, positive.bool()).points()
        figures = detection_figures(scores, positive.bool(), lengths)
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in figures.items()}
