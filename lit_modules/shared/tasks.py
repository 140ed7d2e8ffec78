"""The tasks: classification, regression, tagging and multiple choice.

A task defines the loss, the divergence of two predictions and the metrics. All values belong to
samples, so that no mean depends on batches and processes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from layers.divergence import divergence
from text import IGNORED, TaskName


class Task:
    """Classification; the base class of the other tasks.

    Attributes:
        name: name of the task.
        headline: the metric that selects the best weights by default.
        means: names of `values`.
        by_word: True if each word of a sample is a unit.
    """

    name: TaskName = "classification"
    headline = "accuracy"
    means: tuple[str, ...] = ("loss", "accuracy")
    by_word = False

    def check(self, class_names: Sequence[str]) -> None:
        """Raise ValueError unless these can be the classes."""
        if len(class_names) < 2:
            msg = f"got classes {list(class_names)}, expected at least two"
            raise ValueError(msg)

    def outputs(self, class_names: Sequence[str]) -> int:
        """Return the number of outputs of a network for each text, pair or token."""
        return len(class_names)

    def units(self, labels: Tensor) -> Tensor:
        """`[B]`: weights of the samples in a mean over a batch: 1, or the number of words."""
        return torch.ones(len(labels), device=labels.device)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """`[B]`: the loss of each sample, a sum over its units."""
        return functional.cross_entropy(logits, labels, reduction="none")

    def mean(self, values: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over all units of a batch, from `[B]` sums over the units of samples."""
        # No unit with a label: the loss is 0, not NaN.
        return values.sum() / self.units(labels).sum().clamp_min(1)

    def divergences(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """`[B]`: divergence of the second prediction from the first, a sum over units.

        The Kullback-Leibler divergence KL(p || q), where p and q are those of the first and second
        logits; for numbers the squared difference. In tagging, tokens without a tag do not count.
        """
        del labels
        return divergence(first, second)

    def divergence(
        self, first: Tensor, second: Tensor, labels: Tensor, *, symmetric: bool = False
    ) -> Tensor:
        """Return the mean divergence of a batch's units; symmetric: KL(p || q) + KL(q || p)."""
        values = self.divergences(first, second, labels)
        if symmetric:
            values = values + self.divergences(second, first, labels)
        return self.mean(values, labels)

    def prediction(self, logits: Tensor) -> Tensor:
        """Return the predictions: classes, numbers or tags."""
        return logits.argmax(dim=-1)

    def values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return values of samples or their units, whose means over a split become its metrics."""
        return {
            "loss": self.losses(logits, labels),
            "accuracy": (self.prediction(logits) == labels).float(),
        }

    def metric_inputs(
        self, logits: Tensor, labels: Tensor, cut_tags: Tensor | None = None
    ) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor]]:
        """Return the inputs of the metrics: `values`; predictions and labels, for `SplitScores`.

        See `Batch` for `cut_tags`, the tags of truncated words.
        """
        del cut_tags
        return self.values(logits, labels), (self.prediction(logits), labels)

    def right(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        """`[B]` bool: True if the prediction of a sample is correct; None for a regression."""
        return self.prediction(logits) == labels


class Choice(Task):
    """Multiple choice: the classes are the choices."""

    name = "choice"


class Regression(Task):
    """A number; the network gives one, and the loss is the squared difference."""

    name = "regression"
    headline = "spearman"
    means = ("loss",)

    def check(self, class_names: Sequence[str]) -> None:
        if class_names:
            msg = f"got classes {list(class_names)} for a regression, expected none"
            raise ValueError(msg)

    def outputs(self, class_names: Sequence[str]) -> int:
        return 1

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        return (logits.squeeze(-1).float() - labels).square()

    def divergences(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        del labels
        return (first - second).squeeze(-1).float().square()

    def divergence(
        self, first: Tensor, second: Tensor, labels: Tensor, *, symmetric: bool = False
    ) -> Tensor:
        # The squared difference is symmetric.
        return super().divergence(first, second, labels)

    def prediction(self, logits: Tensor) -> Tensor:
        return logits.squeeze(-1)

    def values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": self.losses(logits, labels)}

    def right(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        return None


class Tagging(Task):
    """A tag at the first token of each word; the other tokens do not count."""

    name = "tagging"
    headline = "f1"
    by_word = True

    def units(self, labels: Tensor) -> Tensor:
        return (labels != IGNORED).sum(dim=1).float()

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        # Cross-entropy expects the classes in the second dimension: [B, C, N].
        each = functional.cross_entropy(
            logits.transpose(1, 2), labels, reduction="none", ignore_index=IGNORED
        )
        return each.sum(dim=1)

    def divergences(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        return divergence(first, second).masked_fill(labels == IGNORED, 0.0).sum(dim=1)

    def values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        words = labels != IGNORED
        logits, labels = logits[words], labels[words]
        return {
            "loss": functional.cross_entropy(logits, labels, reduction="none"),
            "accuracy": (logits.argmax(dim=-1) == labels).float(),
        }

    def metric_inputs(
        self, logits: Tensor, labels: Tensor, cut_tags: Tensor | None = None
    ) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor]]:
        """Count truncated words as errors; see `Task`. They have no loss."""
        values, (prediction, tags) = super().metric_inputs(logits, labels)
        if cut_tags is not None:
            missed = values["accuracy"].new_zeros(int((cut_tags != IGNORED).sum()))
            values["accuracy"] = torch.cat([values["accuracy"], missed])
            # Predict O (class 0) for truncated words: their entities are missed.
            prediction = torch.cat([prediction, torch.zeros_like(cut_tags)], dim=1)
            tags = torch.cat([tags, cut_tags], dim=1)
        return values, (prediction, tags)

    def right(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        return ((self.prediction(logits) == labels) | (labels == IGNORED)).all(dim=1)


TASKS: dict[TaskName, Task] = {
    task.name: task for task in (Task(), Choice(), Regression(), Tagging())
}
"""Every task, by its name."""


def positive_class(
    task: TaskName, class_names: Sequence[str], index: int | None = None
) -> int | None:
    """Return the class of the metric `f1`: the given one, else the second of two classes."""
    two = task == "classification" and len(class_names) == 2
    return 1 if index is None and two else index
