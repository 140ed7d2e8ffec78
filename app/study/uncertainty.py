"""Figures with their uncertainty: intervals over seeds, and paired tests between two rows.

Two things are drawn at random: the seed of a training, and the texts of a test split. A difference
counts if it stands against both, so that the p of a comparison is the larger of two:

- over texts: the exact test of McNemar (1947) for right and wrong answers of one seed. In all other
  cases a permutation test: under the null hypothesis the two rows may answer a text the other way
  round, all seeds of a text together.
- over seeds: the paired t test of the figures with the same seeds. A single seed has none.

`holm` corrects the p of all comparisons of a table.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kind = Literal["mean", "spearman", "pearson", "f1", "macro_f1"]
"""Ways from the samples of a split to its figure: a mean of outcomes, or of predictions and gold
values a rank correlation, a correlation, F1 of class 1, or the mean F1 of all classes."""
CONFIDENCE = 0.95
RESAMPLES = 9999
"""Of permutations and bootstraps; where there are fewer permutations, all of them are taken."""
_BATCH = 2**22
"""Numbers that a batch of resamples may hold."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The figure of a row over its seeds.

    Attributes:
        mean: of the seeds; None if one of them is not finite.
        sd: standard deviation (divided by n - 1); None for a single seed.
        low: lower end of Student's 95 % interval of the mean; None for a single seed.
        high: upper end.
    """

    mean: float | None
    sd: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of two rows that are compared, at the seeds that both have.

    Attributes:
        values: `[S]` the figure of each seed.
        outcomes: `[S, N]` the outcome, or the prediction, of each sample; None where not known.
    """

    values: Sequence[float]
    outcomes: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A row beside another.

    Attributes:
        effect: mean difference, first minus second.
        low: lower end of its 95 % interval: Student's over seeds; of a single seed by the bootstrap
            over texts. None where neither is possible.
        high: upper end.
        p_texts: that chance among texts makes so large a difference; None where outcomes are not
            known.
        p_seeds: that chance among seeds does; None for a single seed, and where the difference is
            the same for all seeds.
        texts_test: name of the test over texts.
    """

    effect: float
    low: float | None = None
    high: float | None = None
    p_texts: float | None = None
    p_seeds: float | None = None
    texts_test: Literal["McNemar", "permutation"] | None = None

    @property
    def p(self) -> float | None:
        """The larger of both; None without a test."""
        known = [p for p in (self.p_texts, self.p_seeds) if p is not None]
        return max(known) if known else None


def over_seeds(values: Sequence[float | None]) -> Estimate:
    """Returns the mean over seeds with its spread.

    Args:
        values: at least one; None stands for a figure that is not finite.

    Raises:
        ValueError: no values.
    """
    from scipy import stats

    if not values:
        msg = "got no figures, expected that of at least one seed"
        raise ValueError(msg)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if len(finite) < len(values):
        return Estimate(mean=None)
    mean = math.fsum(finite) / len(finite)
    if len(finite) == 1:
        return Estimate(mean=mean)
    if _constant(finite):
        return Estimate(mean=mean, sd=0.0, low=mean, high=mean)
    sd = float(np.std(finite, ddof=1))
    low, high = stats.t.interval(
        CONFIDENCE, len(finite) - 1, loc=mean, scale=sd / math.sqrt(len(finite))
    )
    return Estimate(mean=mean, sd=sd, low=float(low), high=float(high))


def compared(
    first: Side, second: Side, *, kind: Kind = "mean", labels: Sequence[float] | None = None
) -> Compared:
    """Compares two rows, seed by seed and text by text.

    Args:
        first: the row.
        second: the row it is compared with, with the same seeds and samples in the same order.
        kind: how a figure comes from the samples.
        labels: `[N]` gold values; needed for all kinds but `mean`.

    Raises:
        ValueError: different numbers of seeds or samples, none at all, or no labels.
    """
    values = np.asarray(first.values, float), np.asarray(second.values, float)
    if values[0].shape != values[1].shape or not values[0].size:
        msg = (
            f"got {values[0].size} and {values[1].size} seeds, expected as many of both, and at "
            "least one"
        )
        raise ValueError(msg)
    found = Compared(effect=float(np.mean(values[0] - values[1])))
    texts = _outcomes(first, second, kind, labels)
    low = high = p_seeds = p_texts = None
    test: Literal["McNemar", "permutation"] | None = None
    if values[0].size > 1:
        low, high, p_seeds = _over_seeds(*values)
    if texts is not None:
        p_texts, test = _over_texts(*texts)
        if values[0].size == 1:
            low, high = _bootstrap(*texts)
    return Compared(
        effect=found.effect, low=low, high=high, p_texts=p_texts, p_seeds=p_seeds, texts_test=test
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns the p of several comparisons after the correction of Holm (1979).

    Args:
        p_values: None for a comparison without a test, which does not count.
    """
    known = [p for p in p_values if p is not None]
    if not known:
        return [None] * len(p_values)
    from statsmodels.stats.multitest import multipletests

    corrected = iter(multipletests(known, method="holm")[1])
    return [None if p is None else float(next(corrected)) for p in p_values]


def _constant(values: Sequence[float] | Array) -> bool:
    """True where values differ by no more than rounding."""
    every = np.asarray(values, float)
    return bool(np.ptp(every) <= 1e-12 * max(1e-300, float(np.max(np.abs(every)))))


def _over_seeds(first: Array, second: Array) -> tuple[float, float, float | None]:
    """Both ends of the interval of the mean difference, and its p."""
    from scipy import stats

    differences = first - second
    mean, scale = float(np.mean(differences)), float(np.max(np.abs([first, second])))
    if float(np.ptp(differences)) <= 1e-12 * scale:
        # No spread to hold the difference against: only texts can tell.
        return mean, mean, 1.0 if abs(mean) <= 1e-12 * scale else None
    test = stats.ttest_rel(first, second)
    interval = test.confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high), float(test.pvalue)


@dataclass(frozen=True)
class _Score:
    """The figure of a split, made from its samples.

    Attributes:
        kind: see `Kind`.
        labels: `[N]`; None for a mean.
    """

    kind: Kind
    labels: Array | None

    def __call__(self, outcomes: Array, labels: Array | None) -> Array:
        """`[..., S, N]` outcomes to `[...]` figures, the mean over seeds."""
        if self.kind == "mean" or labels is None:
            return np.asarray(np.mean(outcomes, axis=(-2, -1)))
        gold = np.broadcast_to(labels[..., None, :], outcomes.shape)
        if self.kind == "f1":
            right = np.sum(outcomes * gold, axis=-1)
            all_ones = np.sum(outcomes, axis=-1) + np.sum(gold, axis=-1)
            return np.asarray(np.mean(2 * right / np.maximum(1.0, all_ones), axis=-1))
        if self.kind == "macro_f1":
            return np.asarray(np.mean(_macro_f1(outcomes, gold), axis=-1))
        return np.asarray(np.mean(_correlation(outcomes, gold), axis=-1))


def _macro_f1(outcomes: Array, gold: Array) -> Array:
    """The mean F1 of the classes that occur, along the last axis."""
    total = np.zeros(outcomes.shape[:-1])
    classes = np.zeros(outcomes.shape[:-1])
    for index in np.union1d(np.unique(outcomes), np.unique(gold)):
        predicted, labelled = outcomes == index, gold == index
        count = np.sum(predicted, axis=-1) + np.sum(labelled, axis=-1)
        total += 2 * np.sum(predicted & labelled, axis=-1) / np.maximum(1, count)
        classes += count > 0
    return np.asarray(total / classes)


def _correlation(first: Array, second: Array) -> Array:
    """Pearson's correlation along the last axis; 0 where one of both does not vary."""
    from scipy import stats

    with warnings.catch_warnings():
        # A resample may consist of a single value.
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        found = stats.pearsonr(first, second, axis=-1).statistic
    return np.asarray(np.nan_to_num(np.asarray(found, float), nan=0.0))


Texts = tuple[Array, Array, _Score]
"""`[S, N]` of the one row, `[S, N]` of the other, and how the figure comes from them."""


def _outcomes(
    first: Side, second: Side, kind: Kind, labels: Sequence[float] | None
) -> Texts | None:
    """The outcomes as arrays; None where they are not known."""
    if first.outcomes is None or second.outcomes is None:
        return None
    one, two = (np.asarray(side.outcomes, float) for side in (first, second))
    gold = None if labels is None else np.asarray(labels, float)
    expected = (len(first.values), one.shape[-1])
    if one.shape != expected or two.shape != expected or not one.shape[-1]:
        msg = (
            f"got outcomes of shapes {one.shape} and {two.shape} for {len(first.values)} seeds, "
            "expected the same samples of each seed"
        )
        raise ValueError(msg)
    if kind == "mean":
        return one, two, _Score(kind, None)
    if gold is None or gold.shape != one.shape[-1:]:
        msg = f"got {kind} without a gold value for each sample, expected them"
        raise ValueError(msg)
    if kind == "f1":
        # F1 is that of class 1.
        return (one == 1).astype(float), (two == 1).astype(float), _Score(kind, gold == 1)
    if kind == "macro_f1":
        return one, two, _Score(kind, gold)
    if kind == "spearman":
        from scipy import stats

        # It is Pearson's correlation of the ranks, in single precision as the program has them.
        one, two = (stats.rankdata(side.astype(np.float32), axis=-1) for side in (one, two))
        gold = stats.rankdata(gold.astype(np.float32))
    # What is swapped must not depend on the scale that a model answers in.
    return _standard(one), _standard(two), _Score(kind, gold)


def _standard(outcomes: Array) -> Array:
    """Each seed's predictions with mean 0 and deviation 1; zeros where they do not vary."""
    centred = outcomes - outcomes.mean(axis=-1, keepdims=True)
    deviation = centred.std(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def _over_texts(
    first: Array, second: Array, score: _Score
) -> tuple[float, Literal["McNemar", "permutation"]]:
    """The p over texts, and the test that it is from."""
    binary = score.kind == "mean" and bool(np.isin([first, second], (0.0, 1.0)).all())
    if binary and len(first) == 1:
        return _mcnemar(first[0], second[0]), "McNemar"
    return _permuted(first, second, score), "permutation"


def _mcnemar(first: Array, second: Array) -> float:
    from statsmodels.stats.contingency_tables import mcnemar

    one, two = first == 1, second == 1
    table = [
        [int((one & two).sum()), int((one & ~two).sum())],
        [int((~one & two).sum()), int((~one & ~two).sum())],
    ]
    return float(mcnemar(table, exact=True).pvalue)


def _permuted(first: Array, second: Array, score: _Score) -> float:
    if score.kind == "mean":
        # To swap the answers to a text is to turn the sign of their difference.
        turned = (first - second).sum(axis=0)
        turned = turned[turned != 0]  # 0 has no sign
        return _permutation_p((turned,), lambda one, axis: one.sum(axis=axis), 1)
    varied = np.flatnonzero(np.any(first != second, axis=0))
    fixed = np.setdiff1d(np.arange(first.shape[-1]), varied)
    labels = None if score.labels is None else score.labels[np.concatenate([varied, fixed])]

    def statistic(one: Array, two: Array, axis: int) -> Array:
        """The difference of figures; 0 and 1 say which row answers a text."""
        del axis  # the last one
        figures = []
        for chosen in (one, two):
            mixed = np.where(chosen[..., None, :] == 0, first[:, varied], second[:, varied])
            rest = np.broadcast_to(first[:, fixed], (*mixed.shape[:-1], len(fixed)))
            figures.append(score(np.concatenate([mixed, rest], axis=-1), labels))
        return np.asarray(figures[0] - figures[1])

    return _permutation_p((np.zeros(len(varied)), np.ones(len(varied))), statistic, len(first))


def _permutation_p(data: tuple[Array, ...], statistic: Callable[..., Array], seeds: int) -> float:
    """The p of a statistic whose samples are swapped text by text; 1 where no text differs."""
    from scipy import stats

    texts = data[0].size
    if not texts:
        return 1.0
    if texts == 1:  # whichever way round, it is the same size
        return 1.0
    found = stats.permutation_test(
        data,
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=_batch(texts * seeds),
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def _bootstrap(first: Array, second: Array, score: _Score) -> tuple[float | None, float | None]:
    """Ends of the percentile interval over texts, of which all seeds are drawn together."""
    from scipy import stats

    size = first.shape[-1]
    if size < 2:
        return None, None

    def statistic(chosen: Array, axis: int = -1) -> Array:
        del axis  # the last one
        places = chosen.astype(np.int64)
        labels = None if score.labels is None else score.labels[places]
        one, two = (np.moveaxis(side[:, places], 0, -2) for side in (first, second))
        return np.asarray(score(one, labels) - score(two, labels))

    found = stats.bootstrap(
        (np.arange(size, dtype=float),),
        statistic,
        method="percentile",
        confidence_level=CONFIDENCE,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=_batch(first.size),
        rng=np.random.default_rng(0),
    )
    low, high = (float(end) for end in found.confidence_interval)
    return low, high


def _batch(size: int) -> int:
    """Resamples of so many numbers at a time."""
    return max(1, _BATCH // size)


def score(
    outcomes: Sequence[float], *, kind: Kind = "mean", labels: Sequence[float] | None = None
) -> float:
    """Returns the figure of one split.

    Args:
        outcomes: `[N]`, at least one.
        kind: how it comes from them.
        labels: `[N]` gold values; needed for all kinds but `mean`.

    Raises:
        ValueError: no outcomes, or no labels.
    """
    if not len(outcomes):
        msg = "got no samples, expected at least one"
        raise ValueError(msg)
    if kind == "mean":
        return math.fsum(outcomes) / len(outcomes)
    side = Side(values=[0.0], outcomes=[outcomes])
    found = _outcomes(side, side, kind, labels)
    assert found is not None  # there are outcomes
    return float(found[2](found[0], found[2].labels))


def kind_of(metric: str) -> Kind:
    """Returns the `Kind` of a metric by the last part of its name."""
    last = metric.rsplit("/", 1)[-1]
    kinds: tuple[Kind, ...] = ("spearman", "pearson", "f1", "macro_f1")
    return next((kind for kind in kinds if kind == last), "mean")
