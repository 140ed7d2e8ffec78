"""Counts over a test split: its largest classes, and the calibration of the probabilities."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from lit_modules.shared.detection import DetectionCurve, detection_figures

BINS = 10
"""Bins of the calibration error, of equal width in confidence, as in the report."""
SUMS = torch.float32 if torch.backends.mps.is_available() else torch.float64
"""Type of sums: variances are small differences of them. Apple's devices have no float64."""


class SplitCounts(Metric):
    """Counts labels and predictions of a classification, and sums confidences.

    `positive` is the class of `f1`, if there is one.
    """

    full_state_update = False
    higher_is_better = None

    confusion: Tensor
    confidence: Tensor
    right: Tensor
    gaps: Tensor
    squares: Tensor
    fourths: Tensor

    def __init__(self, classes: int, positive: int | None = None) -> None:
        super().__init__()
        self.classes, self.positive = classes, positive
        shapes = {"confusion": (classes, classes), "confidence": (BINS,), "right": (BINS,)}
        for name, shape in {**shapes, "gaps": (), "squares": (), "fourths": ()}.items():
            # A process without samples must add zeros of the same type.
            self.add_state(name, torch.zeros(shape, dtype=SUMS), dist_reduce_fx="sum")

    def update(self, logits: Tensor, labels: Tensor, unshifted: Tensor | None = None) -> None:
        """Add samples: logits `[B, C]`, and labels `[B]`.

        `unshifted` `[B, C]` are logits of a detector without its threshold, for the calibration.
        """
        for name in self._defaults:
            # Precision bf16-true casts the states, too; bfloat16 cannot count beyond 256.
            setattr(self, name, getattr(self, name).to(SUMS))
        probabilities = (logits if unshifted is None else unshifted).float().softmax(dim=1).to(SUMS)
        confidence, likeliest = probabilities.max(dim=1)
        # Bin m is the interval (m / BINS, (m + 1) / BINS].
        bins = ((confidence * BINS).ceil().long() - 1).clamp(0, BINS - 1)
        cells = labels * self.classes + logits.argmax(dim=1)
        self.confusion += cells.bincount(minlength=self.classes**2).view_as(self.confusion)
        self.confidence.index_add_(0, bins, confidence)
        right = (likeliest == labels).to(SUMS)
        self.right.index_add_(0, bins, right)
        self.gaps += (confidence - right).square().sum()
        gold = torch.nn.functional.one_hot(labels, self.classes)
        squares = (probabilities - gold).square().sum(dim=1)
        self.squares += squares.sum()
        self.fourths += squares.square().sum()

    def compute(self) -> dict[str, Tensor]:
        """Return scalars by their names, see docs/verdict.md.

        `samples`, `majority_accuracy`, `largest_class`, `absorbed`, `ece` (Guo et al., 2017,
        equation 3) and `brier` (Brier, 1950: from 0 to 2). `macro_f1_se`, `f1_se`, `ece_se` and
        `brier_se` are standard errors over the samples, by the delta method.
        """
        samples = self.confusion.sum()
        count = samples.clamp_min(1)
        predicted = self.confusion.sum(dim=0)
        largest = predicted.argmax()
        of_others = samples - self.confusion[largest].sum()
        absorbed = predicted[largest] - self.confusion[largest, largest]
        # Without texts of other classes nothing shows that the model can predict another one.
        absorbed = torch.where(of_others > 0, absorbed / of_others.clamp_min(1), 1.0)
        ece = (self.confidence - self.right).abs().sum() / count
        brier = self.squares / count
        occurs = (self.confusion.sum(dim=1) + predicted > 0).float()
        figures = {
            "samples": samples,
            "majority_accuracy": self.confusion.sum(dim=1).max() / count,
            "largest_class": predicted[largest] / count,
            "absorbed": absorbed,
            "ece": ece,
            # A mean of gaps with the sign of their bin: their squares have no sign.
            "ece_se": _standard_error(self.gaps, ece, count),
            "brier": brier,
            "brier_se": _standard_error(self.fourths, brier, count),
            "macro_f1_se": _f1_error(self.confusion, occurs / occurs.sum().clamp_min(1)),
        }
        if self.positive is not None:
            chosen = torch.zeros_like(occurs)
            chosen[self.positive] = 1.0
            figures["f1_se"] = _f1_error(self.confusion, chosen)
        return figures


def _standard_error(squares: Tensor, mean: Tensor, count: Tensor) -> Tensor:
    """Return the standard error of a mean from the sum of the squares."""
    # Rounding may leave the variance of equal numbers below 0.
    return ((squares / count - mean.square()).clamp_min(0) / count).sqrt()


def _f1_error(confusion: Tensor, weights: Tensor) -> Tensor:
    """Return the standard error of a mean of the F1 of each class, with weights `[C]` of sum 1.

    By the delta method over the cells, `[C, C]` counts with labels in rows, a multinomial sample
    (Takahashi et al., 2022): with the share d of the texts that have the class as label or as
    prediction, counted twice if both, F1 = 2 hits / d changes by (2 [hit] - F1 [label] - F1
    [prediction]) / d with the share of a cell.
    """
    count = confusion.sum().clamp_min(1)
    shares = confusion / count
    occurrence = shares.sum(dim=0) + shares.sum(dim=1)
    scale = weights / torch.where(occurrence > 0, occurrence, 1.0)
    loss = scale * 2 * shares.diagonal() / torch.where(occurrence > 0, occurrence, 1.0)
    change = torch.diag(2 * scale) - loss.unsqueeze(0) - loss.unsqueeze(1)
    return ((shares * change.square()).sum() / count).sqrt()


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
