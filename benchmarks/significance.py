"""Scores from which samples can be left out, and comparisons of two methods by them.

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
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, t

from lit_modules.shared.scores import entities

Metric = Literal["accuracy", "f1", "entity_f1", "spearman"]
Array = NDArray[np.float64]
LEVEL = 0.05
"""A difference is called significant where its p is lower."""


class Score(NamedTuple):
    """A score of a test split.

    Attributes:
        value: of all samples.
        without_each: `[N]`, of all samples but one.
    """

    value: float
    without_each: Array


def ratio(above: Sequence[float], below: Sequence[float]) -> Score:
    """Returns a sum over samples divided by another: accuracy, F1, F1 of entities.

    Args:
        above: `[N]`, what each sample adds above the line.
        below: `[N]`, and below it.
    """
    over, under = (np.asarray(one, dtype=np.float64) for one in (above, below))
    without = (over.sum() - over) / np.maximum(1.0, under.sum() - under)
    return Score(float(over.sum() / max(1.0, under.sum())), np.asarray(without))


def spearman(first: Sequence[float], second: Sequence[float]) -> Score:
    """Returns Spearman's correlation of `[N]` and `[N]`; 0 where one of both does not vary."""
    # Single precision, in which the program ranks: what is equal there has the same rank.
    pair = [np.asarray(one, dtype=np.float32) for one in (first, second)]

    def correlation(*values: NDArray[np.float32]) -> float:
        one, two = (ranks - ranks.mean() for ranks in map(rankdata, values))
        scale = float(np.sqrt((one @ one) * (two @ two)))
        return float(one @ two) / scale if scale > 0 else 0.0

    without = [correlation(*(np.delete(one, i) for one in pair)) for i in range(len(first))]
    return Score(correlation(*pair), np.asarray(without))


def scored(
    metric: Metric,
    predictions: Sequence[int | float | Sequence[int]],
    labels: Sequence[int | float | Sequence[int]],
    *,
    class_names: Sequence[str] = (),
) -> Score:
    """Returns the score of predictions.

    Args:
        metric: which one; `f1` is that of the second of two classes.
        predictions: one for each sample; of a tagging those of the words that were not cut off.
        labels: in the same order.
        class_names: of a tagging.
    """
    pairs: list[tuple[Any, Any]] = list(zip(predictions, labels, strict=True))
    if metric == "spearman":
        return spearman(*zip(*pairs, strict=True))
    if metric == "accuracy":
        return ratio([float(p == label) for p, label in pairs], [1.0] * len(pairs))
    if metric == "f1":
        return ratio([2.0 * (p == label == 1) for p, label in pairs], [p + q for p, q in pairs])
    # Words that were cut off have no prediction: their entities are missed, as in the program.
    both = [[entities([class_names[i] for i in tags]) for tags in pair] for pair in pairs]
    above = [2.0 * len(found & there) for found, there in both]
    return ratio(above, [float(len(found) + len(there)) for found, there in both])


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
        """True where chance is improbable; never for a single seed."""
        return self.p is not None and self.p < LEVEL


def compared(first: Sequence[Score], second: Sequence[Score]) -> Compared:
    """Compares a method with another.

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
    reach = error * float(t.isf(LEVEL / 2, freedom))
    p = 2 * float(t.sf(abs(mean) / error, freedom))
    return Compared(n, mean, mean - reach, mean + reach, p, sign_flips(differences))


def sign_flips(differences: Sequence[float]) -> float:
    """Returns the exact two-sided p of a mean where the sign of each difference is a coin's."""
    values = np.asarray(differences, dtype=np.float64)
    signs = np.array(list(product((-1.0, 1.0), repeat=len(values))))
    means = np.abs(signs @ values)
    # Sums in another order differ in the last bit.
    return float(np.mean(means >= abs(values.sum()) * (1 - 1e-9)))
