"""What a run answers to a test split, in a form in which samples can be left out; and comparisons.

Two methods are compared by their differences at the same seeds and on the same test samples. Both
are drawn at random, so that the variance of the mean difference has a part of each:

    Var = (variance of the differences over seeds) / seeds + jackknife variance over test samples,

the second of the difference of the scores' means over seeds. What a seed does to a single sample
is counted in both parts, which errs on the safe side. The mean difference over its root follows
Student's t with the degrees of freedom of Welch and Satterthwaite; that is the p of `compared`.
A test over seeds alone says next to nothing with three of them: the exact sign flip, which is
given beside it, cannot be below 2 / 2 ** 3 = 0.25.

Sources: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11 (jackknife);
Owen, "The pigeonhole bootstrap", 2007 (two crossed sources of variance, and their sum as a
conservative estimate); Satterthwaite, "An Approximate Distribution of Estimates of Variance
Components", 1946.
"""

from collections.abc import Sequence
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lit_modules.shared.scores import entities

Metric = Literal["accuracy", "f1", "entity_f1", "spearman"]
Array = NDArray[np.float64]
LEVEL = 0.05
"""A difference is called significant where its p is lower."""


class Ratio:
    """A score that is a sum over samples by another: accuracy, F1, F1 of entities.

    Args:
        above: `[N]`, what each sample adds above the line.
        below: `[N]`, and below it.
    """

    def __init__(self, above: Sequence[float], below: Sequence[float]) -> None:
        self.above, self.below = (np.asarray(one, dtype=np.float64) for one in (above, below))

    @property
    def value(self) -> float:
        """Of all samples."""
        return float(self.above.sum() / max(1.0, self.below.sum()))

    @property
    def without_each(self) -> Array:
        """`[N]`: of all samples but one."""
        below = np.maximum(1.0, self.below.sum() - self.below)
        return np.asarray((self.above.sum() - self.above) / below)


class Ranks:
    """Spearman's correlation.

    Args:
        first: `[N]`.
        second: `[N]`.
    """

    def __init__(self, first: Sequence[float], second: Sequence[float]) -> None:
        # Single precision, in which the program ranks: what is equal there has the same rank.
        self.pair = tuple(np.asarray(one, dtype=np.float32) for one in (first, second))

    @property
    def value(self) -> float:
        """Of all samples."""
        everything = np.ones((1, len(self.pair[0])))
        first, second = (_ranks(one)[None] for one in self.pair)
        return float(_correlation(first, second, everything)[0])

    @property
    def without_each(self) -> Array:
        """`[N]`: of all samples but one, whose rank the greater ones move into."""
        left = []
        for one in self.pair:
            above, equal = one[None, :] > one[:, None], one[None, :] == one[:, None]
            left.append(_ranks(one)[None, :] - above - 0.5 * equal)
        return _correlation(left[0], left[1], 1.0 - np.eye(len(left[0])))


Score = Ratio | Ranks


def _ranks(values: NDArray[np.float32]) -> Array:
    """From 1; equal ones share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], dtype=np.float64)


def _correlation(first: Array, second: Array, weights: Array) -> Array:
    """Pearson's, of each row, of what has the weight 1; 0 where one of both does not vary."""
    total = weights.sum(axis=1, keepdims=True)
    first = weights * (first - (weights * first).sum(axis=1, keepdims=True) / total)
    second = weights * (second - (weights * second).sum(axis=1, keepdims=True) / total)
    scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return np.asarray((first * second).sum(axis=1) / np.where(scale > 0, scale, np.inf))


def scored(
    metric: Metric,
    predictions: Sequence[int | float | Sequence[int]],
    labels: Sequence[int | float | Sequence[int]],
    *,
    class_names: Sequence[str] = (),
) -> Score:
    """The score of predictions.

    Args:
        metric: which one; `f1` is that of the second of two classes.
        predictions: one for each sample; of a tagging those of the words that were not cut off.
        labels: in the same order.
        class_names: of a tagging.
    """
    pairs = list(zip(predictions, labels, strict=True))
    if metric == "spearman":
        return Ranks([_number(p) for p, _ in pairs], [_number(label) for _, label in pairs])
    if metric == "accuracy":
        return Ratio([float(p == label) for p, label in pairs], [1.0] * len(pairs))
    if metric == "f1":
        above = [2.0 * (p == label == 1) for p, label in pairs]
        return Ratio(above, [float(_number(p) + _number(label)) for p, label in pairs])
    above, below = [], []
    for predicted, tags in pairs:
        assert not isinstance(predicted, int | float)
        assert not isinstance(tags, int | float)
        # Words that were cut off have no prediction: their entities are missed, as in the program.
        found = entities([class_names[i] for i in predicted])
        there = entities([class_names[i] for i in tags])
        above.append(2.0 * len(found & there))
        below.append(float(len(found) + len(there)))
    return Ratio(above, below)


def _number(value: int | float | Sequence[int]) -> float:
    assert isinstance(value, int | float)
    return value


# Comparisons


class Compared(NamedTuple):
    """A method beside another, in points (percent).

    Attributes:
        seeds: that both were trained with.
        mean: difference of the scores.
        low: where its 95 % interval begins; None, as the following, for a single seed.
        high: where it ends.
        p: that so great a difference comes about by chance, see above; None also where nothing
            varies but the methods differ.
        flips: p of the exact sign flip over seeds alone.
    """

    seeds: int
    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    flips: float | None = None

    @property
    def significant(self) -> bool:
        """Whether chance is improbable; never for a single seed."""
        return self.p is not None and self.p < LEVEL


def compared(first: Sequence[Score], second: Sequence[Score]) -> Compared:
    """A method less another.

    Args:
        first: score of the method with each seed, at least one.
        second: of the other with the same seeds, on the same samples in the same order.
    """
    differences = [100 * (one.value - two.value) for one, two in zip(first, second, strict=True)]
    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return Compared(n, mean)
    pairs = zip(first, second, strict=True)
    left = np.mean([100 * (one.without_each - two.without_each) for one, two in pairs], axis=0)
    samples = len(left)
    parts = (float(np.var(differences, ddof=1)) / n, float((samples - 1) * np.var(left)))
    variance = sum(parts)
    if variance == 0:  # equal everywhere; or different by the same everywhere, too few samples
        p = 1.0 if mean == 0 else None
        return Compared(n, mean, mean, mean, p, sign_flips(differences))
    freedom = variance**2 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (samples - 1))
    error = variance**0.5
    reach = error * student_quantile(LEVEL, freedom)
    p = student_p(mean / error, freedom)
    return Compared(n, mean, mean - reach, mean + reach, p, sign_flips(differences))


def sign_flips(differences: Sequence[float]) -> float:
    """Two-sided p of a mean, if the sign of each difference is a coin's; exact, for a few seeds."""
    values = np.asarray(differences, dtype=np.float64)
    signs = np.array(list(product((-1.0, 1.0), repeat=len(values))))
    means = np.abs(signs @ values)
    # Sums in another order differ in the last bit.
    return float(np.mean(means >= abs(values.sum()) * (1 - 1e-9)))


def student_p(t: float, freedom: float) -> float:
    """How probable a value of Student's t is that is at least so far from 0.

    With theta = atan(t / sqrt(freedom)) the density is that of cos(theta) ** (freedom - 1).
    """
    theta = float(np.arctan(abs(t) / freedom**0.5))
    outside, inside = _power(theta, np.pi / 2, freedom - 1), _power(0.0, theta, freedom - 1)
    return outside / (outside + inside)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _power(low: float, high: float, exponent: float) -> float:
    """The integral of cos ** exponent; Gauss-Legendre on pieces that are fine near the ends."""
    # Great exponents leave a peak of the width 1 / sqrt(exponent), small ones a root's end.
    fine = np.geomspace(1e-4, np.pi / 2, 60)
    edges = np.unique(np.clip(np.r_[fine, np.pi / 2 - fine, low, high], low, high))
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    cosine = np.cos(middle[:, None] + half[:, None] * _NODES)
    return float(np.maximum(cosine, 0.0) ** exponent @ _WEIGHTS @ half)


def student_quantile(p: float, freedom: float) -> float:
    """The t that `student_p` gives p for."""
    low, high = 0.0, 1.0
    while student_p(high, freedom) > p:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > p else (low, middle)
    return high
