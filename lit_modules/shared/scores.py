"""Metrics of a whole split that are no means over samples: F1, rank correlation, entity F1."""

import logging
import warnings
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.classification import BinaryF1Score, MulticlassF1Score
from torchmetrics.regression import PearsonCorrCoef, SpearmanCorrCoef

from text import IGNORED, TaskName

log = logging.getLogger(__name__)


class EntityF1(Metric):
    """F1 of entities, which are right if both their ends and their type are (CoNLL 2003).

    An entity begins with `B-TYPE`, or with an `I-TYPE` that goes on with none of its type, as the
    task's own script counts (Tjong Kim Sang and De Meulder, 2003).

    Args:
        tags: name of each tag: `O`, `B-TYPE`, `I-TYPE`.
    """

    full_state_update = False
    higher_is_better = True

    right: Tensor
    found: Tensor
    there: Tensor

    def __init__(self, tags: Sequence[str]) -> None:
        super().__init__()
        self.tags = list(tags)
        for name in ("right", "found", "there"):
            self.add_state(name, torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Add sentences.

        Args:
            predictions: `[B, N]` tags.
            labels: `[B, N]` tags, `IGNORED` where there is none.
        """
        for predicted, label in zip(predictions.tolist(), labels.tolist(), strict=True):
            words = [(p, t) for p, t in zip(predicted, label, strict=True) if t != IGNORED]
            found = entities([self.tags[p] for p, _ in words])
            there = entities([self.tags[t] for _, t in words])
            self.right += len(found & there)
            self.found += len(found)
            self.there += len(there)

    def compute(self) -> Tensor:
        """2 right / (found + there); 0 where nothing is there and nothing was found."""
        return 2 * self.right.float() / (self.found + self.there).clamp_min(1)


def entities(tags: Iterable[str]) -> set[tuple[str, int, int]]:
    """Returns type, first word and end (exclusive) of each entity of a sentence."""
    found: set[tuple[str, int, int]] = set()
    kind, start, end = "", 0, -1
    for end, tag in enumerate([*tags, "O"]):
        mark, _, of = tag.partition("-")
        goes_on = mark == "I" and of == kind
        if kind and not goes_on:
            found.add((kind, start, end))
            kind = ""
        if mark in ("B", "I") and not goes_on:
            kind, start = of, end
    return found


class ClassF1(BinaryF1Score):
    """F1 of one class: the harmonic mean of its precision and its recall.

    Args:
        index: of the class.
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Add samples.

        Args:
            predictions: `[B]` classes.
            labels: `[B]` classes.
        """
        super().update((predictions == self.index).long(), (labels == self.index).long())


class Scores(nn.Module):
    """The scores of a task, over all samples and processes; not stored in checkpoints.

    Args:
        task: whose scores.
        class_names: class names of the task.
        positive: index of the class that `f1` is of, in a classification; if None, the second of
            two classes, and of more classes none.

    Attributes:
        positive: the same, with the default filled in; None where `f1` is of no class.
    """

    def __init__(
        self, task: TaskName, class_names: Sequence[str], positive: int | None = None
    ) -> None:
        super().__init__()
        scores: dict[str, Metric] = {}
        if positive is None and task == "classification" and len(class_names) == 2:
            positive = 1
        self.positive = positive
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

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Adds the samples of a batch, without communication between processes."""
        if predictions.is_floating_point():
            predictions, labels = predictions.double(), labels.double()
        for score in self._metrics():
            score.update(predictions, labels)

    def take(self) -> dict[str, Tensor]:
        """Returns the scores over all processes, which all have to call it, and resets them."""
        taken = {}
        for name, score in self.scores.items():
            assert isinstance(score, Metric)  # __init__
            with warnings.catch_warnings():
                # A process need not have had a batch of its own.
                warnings.filterwarnings("ignore", "The ``compute`` method of metric")
                warnings.filterwarnings("ignore", "The variance of predictions or target")
                taken[name] = score.compute().float()
            if taken[name].isnan():
                log.warning(
                    "%s is not a number: got predictions or targets that are (nearly) all the "
                    "same, expected some that differ",
                    name,
                )
            # A state made under inference mode could not be updated by a later run without it.
            with torch.inference_mode(False):
                score.reset()
        return taken

    def _metrics(self) -> list[Metric]:
        return [score for score in self.scores.values() if isinstance(score, Metric)]
