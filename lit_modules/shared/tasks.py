"""The tasks: classification, regression, tagging and multiple choice.

A task defines the loss, the divergence of two predictions and the metrics. All values belong to
samples, so that no mean depends on how samples are spread over batches and processes.
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
        headline: the metric that chooses the best weights by default.
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
        """Returns the number of outputs of a network for each text, pair or token."""
        return len(class_names)

    def units(self, labels: Tensor) -> Tensor:
        """`[B]`: weights of the samples in a mean over a batch: 1, or the number of words."""
        return torch.ones(len(labels), device=labels.device)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """`[B]`: the loss of each sample, a sum over its units."""
        return functional.cross_entropy(logits, labels, reduction="none")

    def mean(self, values: Tensor, labels: Tensor) -> Tensor:
        """The mean over all units of a batch, a scalar, of `[B]` sums over the units of samples."""
        return values.sum() / self.units(labels).sum().clamp_min(1)

    def divergences(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """`[B]`: divergence of the second prediction from the first, a sum over units.

        The Kullback-Leibler divergence KL(p || q); for numbers the squared difference.

        Args:
            first: logits, of p.
            second: logits, of q.
            labels: of the batch; they say which tokens count.
        """
        del labels
        return divergence(first, second)

    def divergence(
        self, first: Tensor, second: Tensor, labels: Tensor, *, symmetric: bool = False
    ) -> Tensor:
        """The mean over all units of a batch, a scalar; symmetric: KL(p || q) + KL(q || p)."""
        values = self.divergences(first, second, labels)
        if symmetric:
            values = values + self.divergences(second, first, labels)
        return self.mean(values, labels)

    def prediction(self, logits: Tensor) -> Tensor:
        """Returns the predictions: classes, numbers or tags."""
        return logits.argmax(dim=-1)

    def values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Values of samples or their units, whose means over a split become its metrics."""
        return {
            "loss": self.losses(logits, labels),
            "accuracy": (self.prediction(logits) == labels).float(),
        }

    def judged(
        self, logits: Tensor, labels: Tensor, cut_tags: Tensor | None = None
    ) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor]]:
        """Returns the inputs of the metrics: `values`; predictions and labels, for `Scores`.

        Args:
            logits: of a batch.
            labels: of the batch.
            cut_tags: of the words of the batch that were cut off, see `Batch`.
        """
        del cut_tags
        return self.values(logits, labels), (self.prediction(logits), labels)

    def right(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        """`[B]` bool: True if a sample is answered correctly; None for a regression."""
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
        # It is symmetric as it stands.
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

    def judged(
        self, logits: Tensor, labels: Tensor, cut_tags: Tensor | None = None
    ) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor]]:
        """Counts words that were cut off as not answered; see `Task`.

        No tag of theirs is right, and none of their entities is found. Their loss is not known.
        """
        values, (prediction, tags) = super().judged(logits, labels)
        if cut_tags is not None:
            missed = values["accuracy"].new_zeros(int((cut_tags != IGNORED).sum()))
            values["accuracy"] = torch.cat([values["accuracy"], missed])
            # Class 0 is O, outside of all entities.
            prediction = torch.cat([prediction, torch.zeros_like(cut_tags)], dim=1)
            tags = torch.cat([tags, cut_tags], dim=1)
        return values, (prediction, tags)

    def right(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        return ((self.prediction(logits) == labels) | (labels == IGNORED)).all(dim=1)


TASKS: dict[TaskName, Task] = {
    task.name: task for task in (Task(), Choice(), Regression(), Tagging())
}
"""Every task, by its name."""
