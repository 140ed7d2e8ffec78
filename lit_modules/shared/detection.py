"""Detectors: one class against the rest, with a threshold that is part of the output bias."""

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from text import check_range

TIE = 1e-5
"""Scores that differ by less, in units of 1 + |score|, count as equal: rounding may swap them."""


@dataclass(frozen=True)
class Detection:
    """Settings of a detector: its positive class, and the choice of its threshold.

    The threshold is chosen on the validation split at the end of a fit, and subtracted from the
    output bias of the positive class: a text is detected if its prediction is that class.

    Attributes:
        positive: class that is detected; null: no detector.
        false_alarms: largest share of the other validation texts that may be detected.
        cost: cost of a missed text, in false alarms; the threshold then has the least sum of both,
            and `false_alarms` does not count. null: `false_alarms` decides.
    """

    positive: str | None = None
    false_alarms: float = 0.01
    cost: float | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        check_range({"detect.false_alarms": self.false_alarms}, least=0, below=1)
        check_range({"detect.cost": self.cost}, above=0)


@dataclass(frozen=True)
class Detector:
    """The threshold of a detector, and the validation figures it was chosen by.

    Attributes:
        positive: class that is detected.
        threshold: in units of logits: the least lead of the class over all others that is detected,
            before it was subtracted from the output bias.
        false_alarms: share of the other validation texts that are detected.
        recall: share of the validation texts of the class that are detected.
        negatives: validation texts of other classes.
        positives: validation texts of the class.
    """

    positive: str
    threshold: float
    false_alarms: float
    recall: float
    negatives: int
    positives: int

    @classmethod
    def from_checkpoint(cls, content: Any) -> "Detector | None":
        """Return the detector of the plain values of a checkpoint; None without one.

        Raises:
            ValueError: other values than those of a detector.
        """
        if content is None:
            return None
        numbers = ("threshold", "false_alarms", "recall", "negatives", "positives")
        if (
            not isinstance(content, dict)
            or content.keys() != {"positive", *numbers}
            or not isinstance(content["positive"], str)
            or not all(type(content[name]) in (int, float) for name in numbers)
            or not math.isfinite(content["threshold"])
        ):
            msg = f"got detector {content!r:.80}, expected the record of one: damaged checkpoint"
            raise ValueError(msg)
        return cls(**content)

    def describe(self) -> str:
        """Return one line about the threshold."""
        alarms = round(self.false_alarms * self.negatives)
        return (
            f"detects {self.positive} at a score of {self.threshold:.2f}: "
            f"{self.false_alarms:.1%} false alarms ({alarms} of {self.negatives}), "
            f"recall {self.recall:.2f} on validation"
        )


def detection_scores(logits: Tensor, index: int) -> Tensor:
    """`[B]` float64: the lead of a class over all others, from logits `[B, C]`."""
    logits = logits.detach().to(torch.float64)
    others = logits.clone()
    others[:, index] = -torch.inf
    return logits[:, index] - others.amax(dim=1)


def find_positive(name: str, class_names: Sequence[str]) -> int:
    """Return the index of the class that is detected.

    Raises:
        ValueError: no such class.
    """
    folded = {other.casefold(): index for index, other in enumerate(class_names)}
    if name in class_names:
        return list(class_names).index(name)
    if name.casefold() in folded and len(folded) == len(class_names):
        return folded[name.casefold()]
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    hint = f"; did you mean {class_names[folded[near[0]]]}?" if near else ""
    msg = f"got class {name}, expected one of {', '.join(class_names)}{hint}"
    raise ValueError(msg)


def check_two_classes(method: str, class_names: Sequence[str], *, pairs: bool) -> None:
    """Refuse a corpus on which a method cannot detect one class against the other.

    Raises:
        ValueError: pairs of texts, or another number of classes than two.
    """
    if pairs or len(class_names) != 2:
        kind = "pairs of texts" if pairs else f"{len(class_names)} classes"
        msg = (
            f"got {kind} for {method}, expected single texts of two classes; "
            "--data.against_rest CLASS reads a corpus of several as one against the rest"
        )
        raise ValueError(msg)


def find_evidence_class(name: str | None, class_names: Sequence[str]) -> int:
    """Return the index of the class that evidence speaks for: the second of two by default.

    Raises:
        ValueError: no such class.
    """
    if name is None:
        return 1
    # Exactly, unlike `find_positive`: the name is stored with the weights.
    if name not in class_names:
        msg = f"got --model.positive {name}, expected one of {', '.join(class_names)}"
        raise ValueError(msg)
    return list(class_names).index(name)


def choose_threshold(scores: Tensor, positive: Tensor, settings: Detection) -> float:
    """Return the threshold of the settings: a text is detected if its score exceeds it.

    It lies in the middle between two neighbouring scores `[B]`, or 1 beyond the first or the last;
    `positive` `[B]` bool is True for the texts of the positive class.

    Raises:
        ValueError: no text of the class, or none of others, or a score that is not finite.
    """
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        msg = (
            f"got {positives} validation texts of the class {settings.positive} and {negatives} "
            "others, expected some of both to choose a threshold"
        )
        raise ValueError(msg)
    scores, order = scores.to(torch.float64).sort()
    if not scores.isfinite().all():
        msg = "got scores that are not finite, expected finite ones: the training has diverged"
        raise ValueError(msg)
    positive = positive[order]
    # Cut i detects the texts from i on; equal scores are never parted.
    gap = scores.diff() > TIE * (1 + scores[1:].abs())
    cuts = torch.cat([gap.new_ones(1), gap, gap.new_ones(1)]).nonzero().flatten()
    # Scores beyond both ends, so that the first and the last cut are middles, too.
    ends = torch.cat([scores[:1] - 2, scores, scores[-1:] + 2])
    middles = (ends[:-1] + ends[1:]) / 2
    counts = torch.cat([positive.new_zeros(1), positive]).long().cumsum(0)
    missed = counts[cuts]
    # Below cut i are i texts, `missed` of them positive: the other negatives are above it.
    alarms = negatives - (cuts - missed)
    if settings.cost is not None:
        costs = alarms + settings.cost * missed
        return float(middles[cuts[costs.argmin()]])  # the first of equal ones is the lowest
    # The last cut detects nothing, so some cut is always allowed. A quotient, as 0.29 * 100 < 29.
    allowed = alarms.to(torch.float64) / negatives <= settings.false_alarms
    return float(middles[cuts[allowed.int().argmax()]])


@dataclass(frozen=True)
class DetectionCurve:
    """The false alarms and the detections of every threshold, from none to all.

    Attributes:
        alarms: `[K + 1]` int64: detected texts of other classes.
        hits: `[K + 1]` int64: detected texts of the positive class.
        positives: texts of the positive class.
        negatives: texts of other classes.
    """

    alarms: Tensor
    hits: Tensor
    positives: int
    negatives: int

    @classmethod
    def of(cls, scores: Tensor, positive: Tensor) -> "DetectionCurve":
        """Count texts: scores `[B]`, and `positive` `[B]` bool, True for the positive class."""
        scores, order = scores.sort(descending=True)
        positive = positive[order].bool()
        # Equal scores are detected together.
        ends = torch.cat([scores.diff() != 0, positive.new_ones(min(1, len(scores)))])
        hits = positive.long().cumsum(0)[ends]
        total = torch.arange(1, len(scores) + 1, device=scores.device)[ends]
        none = total.new_zeros(1)
        positives = int(positive.sum())
        return cls(
            torch.cat([none, total - hits]),
            torch.cat([none, hits]),
            positives,
            len(scores) - positives,
        )

    def auc(self) -> float:
        """Return the area under the ROC curve: equal scores of a pair of texts count one half."""
        # Twice the area of each trapezium, which is a whole number.
        steps = self.alarms.diff() * (self.hits[1:] + self.hits[:-1])
        pairs = 2 * self.positives * self.negatives
        return float(steps.sum()) / pairs if pairs else math.nan

    def average_precision(self) -> float:
        """Return the mean precision over the recall (a sum over its steps)."""
        if not self.positives:
            return math.nan
        precision = self.hits[1:] / (self.hits + self.alarms)[1:].to(torch.float64)
        return float((self.hits.diff() * precision).sum()) / self.positives

    def recall_at(self, false_alarms: float) -> float:
        """Return the largest recall with at most this share of false alarms."""
        if not self.positives or not self.negatives:
            return math.nan
        allowed = self.alarms.to(torch.float64) / self.negatives <= false_alarms
        return int(self.hits[allowed].max()) / self.positives

    def points(self, most: int = 200) -> list[tuple[float, float, float]]:
        """Return false alarms, recall and precision of some thresholds, for a picture."""
        last = len(self.alarms) - 1
        indices = sorted({round(i * last / (most - 1)) for i in range(most)}) if last else []
        return [
            (
                int(self.alarms[i]) / max(1, self.negatives),
                int(self.hits[i]) / max(1, self.positives),
                int(self.hits[i]) / max(1, int(self.hits[i] + self.alarms[i])),
            )
            for i in indices
        ]


RATES = (0.001, 0.01, 0.05)
"""Shares of false alarms of the figures `recall_at_RATE`."""
SLICES = ("short", "middle", "long")
"""The thirds of a split by the length of texts in tokens."""


def detection_figures(scores: Tensor, positive: Tensor, lengths: Tensor) -> dict[str, float]:
    """Return the figures of a detector on a split, with their counts.

    A text with one of the scores `[B]` above 0 is detected; `positive` `[B]` bool is True for the
    texts of the positive class, `lengths` `[B]` are in tokens.
    """
    curve = DetectionCurve.of(scores, positive)
    figures = {"auc": curve.auc(), "average_precision": curve.average_precision()}
    figures |= {f"recall_at_{rate}": curve.recall_at(rate) for rate in RATES}
    figures |= _at_threshold(scores, positive)
    if len(lengths):
        lengths = lengths.to(torch.float64)
        ends = lengths.quantile(torch.tensor([1 / 3, 2 / 3], dtype=torch.float64))
        third = torch.bucketize(lengths, ends)
        for number, name in enumerate(SLICES):
            part = _at_threshold(scores[third == number], positive[third == number])
            figures |= {f"{name}/{figure}": value for figure, value in part.items()}
    return figures


def _at_threshold(scores: Tensor, positive: Tensor) -> dict[str, float]:
    """Return recall and false alarms at the threshold, and the texts that they are shares of."""
    detected, positive = scores > 0, positive.bool()
    positives, negatives = int(positive.sum()), int((~positive).sum())
    hits, alarms = int((detected & positive).sum()), int((detected & ~positive).sum())
    return {
        "recall": hits / positives if positives else math.nan,
        "false_alarms": alarms / negatives if negatives else math.nan,
        "positives": positives,
        "negatives": negatives,
    }
