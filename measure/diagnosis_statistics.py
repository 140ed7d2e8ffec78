"""Margins and similarities that explain robustness (UniBERT, sections 6.4 and 6.5).

The distance of logits to a decision boundary, and the change of each layer's activations by an
attack.
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
    """Return the distance of each row of logits to the nearest decision boundary (section 6.4).

    Class c wins in the cone y_c >= y_j for all j. The faces of the cone are the hyperplanes y_c =
    y_j, so the distance is the least of (y_c - y_j) / sqrt(2). The paper has no formula, but its
    mean of 72.4 for a margin of 100 agrees: a margin of 100 gives 100 / sqrt(2) = 70.7.

    The logits are `[B, C]`, of two classes or more, the labels `[B]` gold classes.

    Returns:
        `[B]` float64, in units of the logits; a negative value is not a distance: the prediction is
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
    # The margin objective is the largest wrong logit minus the gold one.
    return -objective(logits.double(), labels, "margin") / math.sqrt(2)


@dataclass(frozen=True, kw_only=True)
class DistanceSummary:
    """Distances of the correctly classified samples (section 6.4, Table 5).

    Attributes:
        count: number of distances.
        mean: mean in units of the logits.
        variance: variance over these samples (divided by their number), in squared units of the
            logits.
        normalized: d_s = mean / variance (equation 7); s times larger logits have an s times
            smaller d_s. None if all distances are equal.
        ratio: mean / standard deviation, independent of the scale. None if all are equal.
    """

    count: int
    mean: float
    variance: float
    normalized: float | None
    ratio: float | None

    @classmethod
    def of(cls, distances: Tensor) -> Self:
        """Summarise those of `[n]` `boundary_distances` above 0: attacks skip the other samples.

        Raises:
            ValueError: none is above 0.
        """
        right = distances[distances > 0].double()
        if right.numel() == 0:
            msg = (
                f"got {distances.numel()} distance(s) of which none is above 0, expected some "
                "correct prediction: train the model first"
            )
            raise ValueError(msg)
        mean, variance = float(right.mean()), float(right.var(correction=0))
        # Rounding: the variance of equal numbers may be a few units in the last place.
        spread = variance > (8 * torch.finfo(right.dtype).eps * mean) ** 2
        return cls(
            count=right.numel(),
            mean=mean,
            variance=variance,
            normalized=mean / variance if spread else None,
            ratio=mean / math.sqrt(variance) if spread else None,
        )


def pool(states: Tensor, mask: Tensor, *, pooling: Pooling = "first") -> Tensor:
    """Return one vector for each text, `[B, d]` float64, from `[B, N, d]` activations of tokens.

    The mask is `[B, N]`, True at real tokens; the first token of each row is real.

    Raises:
        ValueError: an unknown pooling.
    """
    if pooling not in get_args(Pooling):
        msg = f"got pooling={pooling!r}, expected first or mean"
        raise ValueError(msg)
    if pooling == "first":
        return states[:, 0].double()
    # Not by a product: activations at padding may be infinite, and 0 * inf is NaN.
    real = states.double().masked_fill(~mask.unsqueeze(-1), 0.0)
    return real.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def activation_similarity(
    clean: Sequence[Tensor],
    attacked: Sequence[Tensor],
    *,
    clean_mask: Tensor,
    attacked_mask: Tensor,
    pooling: Pooling = "first",
) -> Tensor:
    """Return the cosine similarity of activations before and after an attack (equation 8).

    The two texts may have different numbers of tokens, so each layer's activations are pooled to
    one vector first. The paper does not say how; BERT's classifier reads the first token.

    The clean activations are `[B, N, d]` after each of L layers, with a mask `[B, N]`, True at real
    tokens, those after the attack `[B, M, d]` and `[B, M]`; d may differ from layer to layer.

    Returns:
        `[L, B]` float64 in [-1, 1]; 0 where a vector is 0.

    Raises:
        ValueError: no layers, or different numbers of layers.
    """
    if not clean or len(clean) != len(attacked):
        msg = (
            f"got activations of {len(clean)} and {len(attacked)} layer(s), expected as many "
            "before as after the attack, and at least one"
        )
        raise ValueError(msg)
    # [B] for each layer; d differs from layer to layer, so no common tensor.
    rows = [
        functional.cosine_similarity(
            pool(before, clean_mask, pooling=pooling),
            pool(after, attacked_mask, pooling=pooling),
            dim=1,
        )
        for before, after in zip(clean, attacked, strict=True)
    ]
    # Rounding can exceed 1 by one unit in the last place.
    return torch.stack(rows).clamp(-1.0, 1.0)


class PairSimilarity:
    """Mean cosine similarity of two different texts, per layer: the baseline for similarities.

    If the activations of all texts have a large common part, or collapse to one point per class,
    then the similarity before and after any attack is high. The mean over all pairs needs no loop:
    for unit vectors u, sum over i != j of u_i . u_j = |sum u|^2 - sum |u|^2.

    Attributes:
        count: texts so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sums: list[Tensor] = []
        self._squares: list[float] = []

    def update(self, vectors: Sequence[Tensor]) -> None:
        """Add texts: `[B, d]` for each of L layers, see `pool`."""
        unit = [functional.normalize(vector.double(), dim=1).cpu() for vector in vectors]
        if not self._sums:
            self._sums = [torch.zeros_like(vector[0]) for vector in unit]
            self._squares = [0.0] * len(unit)
        for layer, vector in enumerate(unit):
            self._sums[layer] += vector.sum(dim=0)
            # Not the count: a vector of norm 0 has no unit vector.
            self._squares[layer] += float(vector.square().sum())
        self.count += unit[0].shape[0]

    @property
    def mean(self) -> list[float]:
        """Mean of each layer; empty for fewer than two texts."""
        # Ordered pairs, i != j.
        pairs = self.count * (self.count - 1)
        if pairs == 0:
            return []
        return [
            (float(total.square().sum()) - squares) / pairs
            for total, squares in zip(self._sums, self._squares, strict=True)
        ]


class LayerMoments:
    """Mean and standard deviation per layer, over batches of samples; float64, on the CPU."""

    def __init__(self) -> None:
        # [L, samples]. All values, not sums of squares: similarities close to 1 have a spread that
        # would be lost by cancellation.
        self._values = torch.zeros(0, 0, dtype=torch.float64)

    @property
    def count(self) -> int:
        """Number of samples so far."""
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
        """Mean of each layer; empty without samples."""
        return list(self._values.mean(dim=1).tolist()) if self.count else []

    @property
    def std(self) -> list[float]:
        """Standard deviation of each layer (divided by the number of samples); empty without."""
        return list(self._values.std(dim=1, correction=0).tolist()) if self.count else []
