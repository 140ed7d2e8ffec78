"""Margins and similarities behind a classifier's robustness (UniBERT, sections 6.4 and 6.5).

How far its logits lie from a decision boundary, and how far an attack moves the activations of each
layer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
from torch import Tensor
from torch.nn import functional

from attacks.embeddings.pgd import objective

Pooling = Literal["first", "mean"]
"""The vector of a text: that of its first token, or the mean over its real tokens."""


def boundary_distances(logits: Tensor, labels: Tensor) -> Tensor:
    """Distance of each row of logits to the nearest decision boundary (section 6.4).

    Where class c wins, the logits lie in the cone y_c >= y_j for all j, whose faces are the
    hyperplanes y_c = y_j: the distance to the boundary is the least of (y_c - y_j) / sqrt(2). The
    paper gives no formula; its mean of 72.4 with a margin of 100 agrees with this one, by which
    logits that just have the margin are 100 / sqrt(2) = 70.7 away.

    Args:
        logits: `[B, C]`, at least two classes.
        labels: `[B]`, gold classes.

    Returns:
        `[B]` float64, in units of the logits; negative, and no distance, where the prediction is
        wrong.

    Raises:
        ValueError: fewer than two classes, or labels that do not fit.
    """
    if logits.ndim != 2 or logits.shape[1] < 2 or labels.shape != logits.shape[:1]:
        msg = (
            f"got logits {list(logits.shape)} and labels {list(labels.shape)}, expected [B, C] "
            "with at least two classes, and [B]"
        )
        raise ValueError(msg)
    return -objective(logits.double(), labels, "margin") / math.sqrt(2)


@dataclass(frozen=True, kw_only=True)
class DistanceSummary:
    """Distances of the rightly classified samples (section 6.4, Table 5).

    Attributes:
        count: number of distances.
        mean: mean in units of the logits.
        variance: variance over these samples (divided by their number), in squared units of the
            logits.
        normalized: d_s = mean / variance (equation 7). Not free of scale: logits that are s times
            as large have a d_s that is s times as small. None where all distances are equal.
        ratio: mean / standard deviation, which is free of scale. None where all are equal.
    """

    count: int
    mean: float
    variance: float
    normalized: float | None
    ratio: float | None

    @classmethod
    def of(cls, distances: Tensor) -> Self:
        """Summarise distances.

        Args:
            distances: `[n]`, as `boundary_distances` gives them; only what is above 0 counts, as
                attacks skip what is misclassified.

        Raises:
            ValueError: none is above 0.
        """
        right = distances[distances > 0].double()
        if right.numel() == 0:
            msg = (
                f"got {distances.numel()} distance(s) of which none is above 0, expected some "
                "sample to be classified rightly: train the model first"
            )
            raise ValueError(msg)
        mean, variance = float(right.mean()), float(right.var(correction=0))
        # Equal numbers may differ from their rounded mean in the last digit.
        spread = variance > (8 * torch.finfo(right.dtype).eps * mean) ** 2
        return cls(
            count=right.numel(),
            mean=mean,
            variance=variance,
            normalized=mean / variance if spread else None,
            ratio=mean / math.sqrt(variance) if spread else None,
        )


def pooled(states: Tensor, mask: Tensor, *, pooling: Pooling = "first") -> Tensor:
    """The vector that stands for each text.

    Args:
        states: `[B, N, d]` activations of tokens.
        mask: `[B, N]`, True at real tokens, of which each row has one at least, and first.
        pooling: see `Pooling`.

    Returns:
        `[B, d]` float64.

    Raises:
        ValueError: an unknown pooling.
    """
    if pooling not in get_args(Pooling):
        msg = f"got pooling={pooling!r}, expected first or mean"
        raise ValueError(msg)
    if pooling == "first":
        return states[:, 0].double()
    # Not by a product: what stands at padding may be infinite, and 0 times that is no number.
    kept = states.double().masked_fill(~mask.unsqueeze(-1), 0.0)
    return kept.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def activation_similarity(
    clean: Sequence[Tensor],
    attacked: Sequence[Tensor],
    *,
    clean_mask: Tensor,
    attacked_mask: Tensor,
    pooling: Pooling = "first",
) -> Tensor:
    """Cosine similarity of a text's activations before and after an attack (equation 8).

    The two texts may differ in their number of tokens, so each layer's activations come to one
    vector a text first. The paper does not say how; BERT's classifier reads the first token.

    Args:
        clean: `[B, N, d]` after each of L layers; d may differ from layer to layer.
        attacked: `[B, M, d]` of the same texts after the attack.
        clean_mask: `[B, N]`, True at real tokens.
        attacked_mask: `[B, M]`.
        pooling: see `Pooling`.

    Returns:
        `[L, B]` float64 in [-1, 1]; 0 where a vector is 0.

    Raises:
        ValueError: no layers, or another number of them.
    """
    if not clean or len(clean) != len(attacked):
        msg = (
            f"got activations of {len(clean)} and {len(attacked)} layer(s), expected as many "
            "before as after the attack, and at least one"
        )
        raise ValueError(msg)
    rows = [
        functional.cosine_similarity(
            pooled(before, clean_mask, pooling=pooling),
            pooled(after, attacked_mask, pooling=pooling),
            dim=1,
        )
        for before, after in zip(clean, attacked, strict=True)
    ]
    return torch.stack(rows).clamp(-1.0, 1.0)


class PairSimilarity:
    """Mean cosine similarity of two different texts, per layer: the baseline for similarities.

    Activations of all texts may have a large part in common, or collapse to one point a class; the
    similarity of a text before and after an attack is high then, whatever the attack does. Over all
    pairs of n texts without a loop over them: unit vectors u have
    sum over i != j of u_i . u_j = |sum u|^2 - sum |u|^2.

    Attributes:
        count: texts so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sums: list[Tensor] = []
        self._squares: list[float] = []

    def update(self, vectors: Sequence[Tensor]) -> None:
        """Add texts.

        Args:
            vectors: `[B, d]` for each of L layers, as `pooled` gives them.
        """
        unit = [functional.normalize(one.double(), dim=1).cpu() for one in vectors]
        if not self._sums:
            self._sums = [torch.zeros_like(one[0]) for one in unit]
            self._squares = [0.0] * len(unit)
        for layer, one in enumerate(unit):
            self._sums[layer] += one.sum(dim=0)
            # A vector of norm 0 stays one: n would be wrong.
            self._squares[layer] += float(one.square().sum())
        self.count += unit[0].shape[0]

    @property
    def mean(self) -> list[float]:
        """Of each layer; empty of fewer than two texts."""
        pairs = self.count * (self.count - 1)
        if pairs == 0:
            return []
        return [
            (float(total.square().sum()) - squares) / pairs
            for total, squares in zip(self._sums, self._squares, strict=True)
        ]


class LayerMoments:
    """Mean and standard deviation per layer, over samples that come in batches.

    In float64, on the CPU. All values are kept, 8 bytes for each layer of a sample: a sum of
    squares would lose a spread that is small beside the mean, as that of similarities close to 1.
    """

    def __init__(self) -> None:
        self._values = torch.zeros(0, 0, dtype=torch.float64)

    @property
    def count(self) -> int:
        """Samples so far."""
        return self._values.shape[1]

    def update(self, values: Tensor) -> None:
        """Add `[L, B]` values.

        Raises:
            ValueError: another number of layers than before.
        """
        values = values.detach().cpu().double()
        if self.count and (values.ndim != 2 or len(values) != len(self._values)):
            msg = f"got values {list(values.shape)}, expected [{len(self._values)}, samples]"
            raise ValueError(msg)
        self._values = torch.cat([self._values, values], dim=1) if self.count else values

    @property
    def mean(self) -> list[float]:
        """Of each layer; empty without samples."""
        return list(self._values.mean(dim=1).tolist()) if self.count else []

    @property
    def std(self) -> list[float]:
        """Standard deviation of each layer (divided by the number of samples); empty without."""
        return list(self._values.std(dim=1, correction=0).tolist()) if self.count else []
