"""Figures with their uncertainty: intervals over seeds, and paired tests between two rows.

Two things are drawn at random: the seed of a training, and the texts of a test split. There is a
p for each:

- over texts: the exact test of McNemar (1947) for right and wrong answers of one seed. In all other
  cases a permutation test: under the null hypothesis the two rows may answer a text the other way
  round, all seeds of a text together.
- over seeds: the paired t test of the figures with the same seeds. A single seed has none.

`joint_p` is that of a comparison: of both kinds of chance at once. Fewer than `FEWEST_SEEDS` seeds
have none. `holm` corrects the p of all comparisons of a table.
"""

import math
import re
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
Bounds = tuple[float, float]
"""The least and the largest value that a figure can have."""
UNBOUNDED: Bounds = (-math.inf, math.inf)
CONFIDENCE = 0.95
FEWEST_SEEDS = 3
"""Seeds that a difference needs to be tested: nothing shows how trainings vary in fewer."""
RESAMPLES = 9999
"""Of permutations and bootstraps; where there are fewer permutations, all of them are taken."""
_ROUNDING = 1e-9
_SINGLE = 1e-5
"""Relative error of means in single precision."""
_RANKED = 1e-3
"""Error of a correlation: `predict` and `test` may round a prediction differently."""
_BATCH = 2**22
"""Numbers that a batch of resamples may hold."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The figure of a row over its seeds.

    Attributes:
        mean: of the seeds; None if one of them is not finite.
        sd: standard deviation (divided by n - 1); None for a single seed.
        low: lower end of Student's 95 % interval of the mean, within the bounds of the figure; None
            for a single seed.
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
        p: that both together do; None for fewer than `FEWEST_SEEDS` seeds, and without a test.
        texts_test: name of the test over texts.
    """

    effect: float
    low: float | None = None
    high: float | None = None
    p_texts: float | None = None
    p_seeds: float | None = None
    p: float | None = None
    texts_test: Literal["McNemar", "permutation"] | None = None


def over_seeds(values: Sequence[float | None], bounds: Bounds = UNBOUNDED) -> Estimate:
    """Returns the mean over seeds with its spread.

    The interval ends at the bounds. Its coverage is that of Student's: the true mean never lies in
    the part that is cut off.

    Args:
        values: at least one; None stands for a figure that is not finite.
        bounds: of a value.

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
    low, high = _clip((float(low), float(high)), bounds)
    return Estimate(mean=mean, sd=sd, low=low, high=high)


def _clip(ends: tuple[float, float], bounds: Bounds) -> tuple[float, float]:
    """Both ends of an interval, within the bounds of what it is about."""
    return max(ends[0], bounds[0]), min(ends[1], bounds[1])


def compared(
    first: Side,
    second: Side,
    *,
    kind: Kind = "mean",
    labels: Sequence[float] | None = None,
    bounds: Bounds = UNBOUNDED,
) -> Compared:
    """Compares two rows, seed by seed and text by text.

    Args:
        first: the row.
        second: the row it is compared with, with the same seeds and samples in the same order.
        kind: how a figure comes from the samples.
        labels: `[N]` gold values; needed for all kinds but `mean`.
        bounds: of a figure, so that a difference is at most as large as their distance.

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
    texts = _outcomes(first, second, kind, labels)
    low = high = p_seeds = p_texts = None
    test: Literal["McNemar", "permutation"] | None = None
    if values[0].size > 1:
        low, high, p_seeds = _over_seeds(*values)
        span = bounds[1] - bounds[0]
        low, high = _clip((low, high), (-span, span))
    if texts is not None:
        p_texts, test = _over_texts(*texts)
        if values[0].size == 1:
            low, high = _bootstrap(*texts)
    return Compared(
        effect=float(np.mean(values[0] - values[1])),
        low=low,
        high=high,
        p_texts=p_texts,
        p_seeds=p_seeds,
        p=joint_p(p_texts, p_seeds, seeds=values[0].size, texts=texts and texts[0].shape[-1]),
        texts_test=test,
    )


def joint_p(
    p_texts: float | None, p_seeds: float | None, *, seeds: int, texts: int | None
) -> float | None:
    """Returns the p of a difference under chance among seeds and texts at once.

    Args:
        p_texts: None where outcomes are not known: then that over seeds counts.
        p_seeds: None where the difference is the same for all seeds: then that over texts counts.
        seeds: their number.
        texts: their number; None where outcomes are not known.

    Returns:
        See `join`; None for fewer than `FEWEST_SEEDS` seeds, and without a test.
    """
    if seeds < FEWEST_SEEDS:
        return None
    if p_texts is None or p_seeds is None or texts is None:
        return p_seeds if p_texts is None else p_texts
    return float(join(np.asarray(p_texts), np.asarray(p_seeds), seeds=seeds, texts=texts))


def join(p_texts: Array, p_seeds: Array, *, seeds: int, texts: int) -> Array:
    """Joins the p of both tests.

    Each test alone leaves the other kind of chance out. Both together do so as well: where the two
    are of equal size, the larger p of both is too small. So their statistics are joined in the
    min F' of Clark (1973): 1 / min F' = 1 / F_seeds + 1 / F_texts. It is a lower bound of the
    quasi F ratio, whose denominator has the variance of both (Forster and Dickinson 1976). Its
    degrees of freedom are half of Satterthwaite's (1946), but not fewer than those of the seeds:
    with all of them, up to 1.5 times as many differences as the level says come from chance. No p
    is below that of one test alone.

    Args:
        p_texts: `[...]` of the tests over texts.
        p_seeds: `[...]` of the tests over seeds.
        seeds: their number, at least two.
        texts: their number.
    """
    from scipy import stats

    of_seeds, of_texts = seeds - 1, max(1, texts - 1)
    # An F of 0 belongs to a p of 1, an infinite one to a p of 0.
    f_seeds, f_texts = (
        np.clip(stats.f.isf(p, 1, freedom), 1e-12, 1e12)
        for p, freedom in ((p_seeds, of_seeds), (p_texts, of_texts))
    )
    share = f_seeds / (f_seeds + f_texts)
    freedom = 1 / (share**2 / of_texts + (1 - share) ** 2 / of_seeds)
    joint = stats.f.sf(share * f_texts, 1, np.maximum(of_seeds, freedom / 2))
    return np.asarray(np.maximum(np.maximum(p_texts, p_seeds), joint))


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
    """True where values differ by no more than rounding to the ten digits of `study.json`."""
    every = np.asarray(values, float)
    return bool(np.ptp(every) <= _ROUNDING * max(1e-300, float(np.max(np.abs(every)))))


def _over_seeds(first: Array, second: Array) -> tuple[float, float, float | None]:
    """Both ends of the interval of the mean difference, and its p."""
    from scipy import stats

    differences = first - second
    mean, scale = float(np.mean(differences)), float(np.max(np.abs([first, second])))
    if float(np.ptp(differences)) <= _ROUNDING * scale:
        # No spread to hold the difference against: only texts can tell.
        return mean, mean, 1.0 if abs(mean) <= _ROUNDING * scale else None
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


def agree(figure: float, value: float, kind: Kind) -> bool:
    """Returns True if a figure from samples is that of `results.json`, but for its rounding."""
    if kind in ("spearman", "pearson"):
        return math.isclose(figure, value, rel_tol=0.0, abs_tol=_RANKED)
    return math.isclose(figure, value, rel_tol=_SINGLE, abs_tol=0.1 * _SINGLE)


def kind_of(metric: str) -> Kind:
    """Returns the `Kind` of a metric by the last part of its name."""
    last = metric.rsplit("/", 1)[-1]
    kinds: tuple[Kind, ...] = ("spearman", "pearson", "f1", "macro_f1")
    return next((kind for kind in kinds if kind == last), "mean")


_SHARES = re.compile(r"(?:.*_)?(?:accuracy|rate|f1)(?:@.*)?")


def is_share(metric: str) -> bool:
    """Returns True for a metric between 0 and 1, by the last part of its name."""
    return _SHARES.fullmatch(metric.rpartition("/")[2]) is not None


def bounds_of(metric: str, scale: float = 1.0) -> Bounds:
    """Returns the bounds of a metric, times a scale: of shares, correlations and radii."""
    last = metric.rpartition("/")[2]
    low, high = UNBOUNDED
    if is_share(metric):
        low, high = 0.0, 1.0
    elif last in ("spearman", "pearson"):
        low, high = -1.0, 1.0
    elif last.startswith("radius"):
        low = 0.0
    ends = sorted((low * scale, high * scale)) if scale else UNBOUNDED
    return ends[0], ends[1]
