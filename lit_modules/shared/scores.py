"""Metrics of a split other than means over samples: F1, rank correlation, entity F1."""

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.classification import BinaryF1Score, MulticlassF1Score
from torchmetrics.regression import PearsonCorrCoef, SpearmanCorrCoef

from lit_modules.shared.detection import Detector, detection_scores, find_positive
from lit_modules.shared.split_counts import DetectionScores, SplitCounts
from lit_modules.shared.tasks import positive_class
from text import IGNORED, TaskName
from text.entities import entities

log = logging.getLogger(__name__)


class EntityF1(Metric):
    """F1 of entities, which are right if their type, begin and end are right (CoNLL 2003).

    An entity begins with `B-TYPE`, or with an `I-TYPE` that does not continue one of its type, as
    in the official script (Tjong Kim Sang and De Meulder, 2003).

    Args:
        tags: name of each tag: `O`, `B-TYPE`, `I-TYPE`.
    """

    full_state_update = False
    higher_is_better = True

    right: Tensor
    predicted: Tensor
    labelled: Tensor

    def __init__(self, tags: Sequence[str]) -> None:
        super().__init__()
        self.tags = list(tags)
        for name in ("right", "predicted", "labelled"):
            self.add_state(name, torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Add sentences: tags `[B, N]`, with the label `IGNORED` for tokens without a tag."""
        for prediction, label in zip(predictions.tolist(), labels.tolist(), strict=True):
            words = [(p, t) for p, t in zip(prediction, label, strict=True) if t != IGNORED]
            predicted = entities([self.tags[p] for p, _ in words])
            labelled = entities([self.tags[t] for _, t in words])
            self.right += len(predicted & labelled)
            self.predicted += len(predicted)
            self.labelled += len(labelled)

    def compute(self) -> Tensor:
        """Return 2 right / (predicted + labelled); 0 without entities."""
        return 2 * self.right.float() / (self.predicted + self.labelled).clamp_min(1)


class ClassF1(BinaryF1Score):
    """F1 of the class `index`: the harmonic mean of its precision and its recall."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Add samples: classes `[B]`."""
        super().update((predictions == self.index).long(), (labels == self.index).long())


class SplitScores(nn.Module):
    """The scores of a task, over all samples and processes; not stored in checkpoints.

    Args:
        task: selects the scores.
        class_names: class names of the task.
        positive: index of the class of `f1`, in a classification, see `positive_class`.
        counts: whether a classification also has the figures of `SplitCounts`.
        detector: its threshold, with counts; None for other models.
    """

    def __init__(
        self,
        task: TaskName,
        class_names: Sequence[str],
        positive: int | None = None,
        *,
        counts: bool = False,
        detector: Detector | None = None,
    ) -> None:
        super().__init__()
        scores: dict[str, Metric] = {}
        positive = positive_class(task, class_names, positive)
        if task == "classification":
            if positive is not None:
                scores["f1"] = ClassF1(positive)
            # The mean over the classes that occur as a label or a prediction.
            scores["macro_f1"] = MulticlassF1Score(len(class_names), average="macro")
        elif task == "regression":
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Metric `SpearmanCorrcoef` will save all")
                scores |= {"spearman": SpearmanCorrCoef(), "pearson": PearsonCorrCoef()}
            for score in scores.values():
                score.set_dtype(torch.float64)  # variances are differences of sums
        elif task == "tagging":
            scores["f1"] = EntityF1(class_names)
        self.scores = nn.ModuleDict(scores)
        counted = counts and task == "classification"
        self.counts = SplitCounts(len(class_names), positive) if counted else None
        self.detector = detector if counted else None
        self.detection = None if self.detector is None else DetectionScores()
        self._detected = 0 if detector is None else find_positive(detector.positive, class_names)

    def update(
        self,
        predictions: Tensor,
        labels: Tensor,
        logits: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> None:
        """Add the samples of a batch, without communication between processes."""
        unshifted = None
        if self.detector is not None and self.detection is not None:
            assert logits is not None  # with counts
            assert lengths is not None  # with counts
            unshifted = logits.clone()
            unshifted[:, self._detected] += self.detector.threshold
            scores = detection_scores(logits, self._detected)
            self.detection.update(scores, labels == self._detected, lengths)
        if self.counts is not None and logits is not None:
            self.counts.update(logits, labels, unshifted)
        # Correlations are differences of large sums.
        if predictions.is_floating_point():
            predictions, labels = predictions.double(), labels.double()
        for score in self.scores.values():
            assert isinstance(score, Metric)  # see `__init__`
            score.update(predictions, labels)

    def curve(self) -> list[tuple[float, float, float]] | None:
        """Return false alarms, recall and precision of a detector since `take`; None of others."""
        return None if self.detection is None else self.detection.points

    def take(self) -> dict[str, Tensor]:
        """Return the scores over all processes, which all have to call it, and resets them."""
        values = {}
        if self.counts is not None:
            values = {name: value.float() for name, value in _take(self.counts).items()}
        if self.detection is not None:
            values |= _take(self.detection)
        for name, score in self.scores.items():
            assert isinstance(score, Metric)  # see `__init__`
            values[name] = _take(score).float()
            if values[name].isnan():
                log.warning(
                    "%s is not a number: got predictions or targets that are (nearly) all the "
                    "same, expected some that differ",
                    name,
                )
        return values


def _take(score: Metric) -> Any:
    """Return the value of a metric over all processes, and reset it."""
    with warnings.catch_warnings():
        # A process may have had no batch.
        warnings.filterwarnings("ignore", "The ``compute`` method of metric")
        warnings.filterwarnings("ignore", "The variance of predictions or target")
        value = score.compute()
    # A state created in inference mode could not be updated outside of it later.
    with torch.inference_mode(False):
        score.reset()
    return value
