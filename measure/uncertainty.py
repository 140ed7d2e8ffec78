"""Figures with their uncertainty: intervals over seeds, and paired tests between two rows.

Two things are random: the seed of a training, and the texts of a test split. Each has a p:

- over texts: the exact test of McNemar (1947) for right and wrong predictions of one seed.
  Otherwise a permutation test: under the null hypothesis the two rows may swap their predictions
  of a text, for all seeds of this text together.
- over seeds: the paired t test of the figures with the same seeds. A single seed has none.

`joint_p` covers both kinds of chance at once; with fewer than `FEWEST_SEEDS` seeds there is none.
`holm` corrects the p of all comparisons of a table.
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
Test = Literal["McNemar", "permutation"]
Bounds = tuple[float, float]
"""The smallest and the largest value that a figure can have."""
UNBOUNDED: Bounds = (-math.inf, math.inf)
CONFIDENCE = 0.95
FEWEST_SEEDS = 3
"""Seeds that a test of a difference needs: fewer do not show how trainings vary."""
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
class SeedEstimate:
    """The mean of a figure over seeds (None if one is not finite), and its spread over several.

    `sd` is the standard deviation, divided by n - 1; `low` and `high` are the ends of Student's 95
    % interval of the mean, within the bounds of the figure.
    """

    mean: float | None
    sd: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of two compared rows, at the seeds that both have: `[S]` figures, one for each seed.

    Outcomes `[S, N]` are the outcome, or the prediction, of each sample; None if unknown.
    """

    values: Sequence[float]
    outcomes: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The difference of two rows, first minus second.

    Attributes:
        effect: mean difference.
        low: lower end of its 95 % interval: Student's over seeds; for a single seed, and for equal
            differences at all seeds, by the bootstrap over texts. None where neither is possible.
        high: upper end.
        p_texts: p over texts; None if the outcomes are unknown.
        p_seeds: p over seeds; None for a single seed, and for equal differences at all seeds.
        p: p over both; None for fewer than `FEWEST_SEEDS` seeds, and without a test.
        texts_test: name of the test over texts.
    """

    effect: float
    low: float | None = None
    high: float | None = None
    p_texts: float | None = None
    p_seeds: float | None = None
    p: float | None = None
    texts_test: Test | None = None


def over_seeds(values: Sequence[float | None], bounds: Bounds = UNBOUNDED) -> SeedEstimate:
    """Return the mean over seeds with its spread; None is a figure that is not finite.

    The interval ends at the bounds. It covers as often as Student's: the true mean is never in the
    part that is cut off.

    Raises:
        ValueError: no values.
    """
    from scipy import stats

    if not values:
        msg = "got no figures, expected that of at least one seed"
        raise ValueError(msg)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if len(finite) < len(values):
        return SeedEstimate(mean=None)
    mean = math.fsum(finite) / len(finite)
    if len(finite) == 1:
        return SeedEstimate(mean=mean)
    # Equal but for the rounding to the ten digits of `study.json`: no spread.
    if np.ptp(finite) <= _ROUNDING * max(1e-300, np.max(np.abs(finite))):
        return SeedEstimate(mean=mean, sd=0.0, low=mean, high=mean)
    sd = float(np.std(finite, ddof=1))
    scale = sd / math.sqrt(len(finite))
    low, high = stats.t.interval(CONFIDENCE, len(finite) - 1, loc=mean, scale=scale)
    return SeedEstimate(
        mean=mean, sd=sd, low=max(float(low), bounds[0]), high=min(float(high), bounds[1])
    )


def compare(
    first: Side,
    second: Side,
    *,
    kind: Kind = "mean",
    labels: Sequence[float] | None = None,
    bounds: Bounds = UNBOUNDED,
) -> Comparison:
    """Compare a row with a baseline, seed by seed and text by text.

    Both have the same seeds and samples in the same order. `labels` are `[N]` gold values, which
    all kinds but `mean` need; a difference is at most as large as the distance of the `bounds`.

    Raises:
        ValueError: different numbers of seeds or samples, none at all, or no labels.
    """
    values = np.asarray(first.values, float), np.asarray(second.values, float)
    seeds = values[0].size
    if values[0].shape != values[1].shape or not seeds:
        msg = f"got {seeds} and {values[1].size} seeds, expected as many of both, and at least one"
        raise ValueError(msg)
    texts = _pair_texts(first, second, kind, labels)
    low = high = p_seeds = p_texts = test = None
    if seeds > 1:
        low, high, p_seeds = _test_seeds(*values)
        if low is not None and high is not None:
            # A difference of two shares is between -1 and 1.
            span = bounds[1] - bounds[0]
            low, high = max(low, -span), min(high, span)
    count = None if texts is None else texts.first.shape[-1]
    if texts is not None:
        p_texts, test = _test_texts(texts)
        if low is None:
            low, high = _bootstrap(texts)
    return Comparison(
        effect=float(np.mean(values[0] - values[1])),
        low=low,
        high=high,
        p_texts=p_texts,
        p_seeds=p_seeds,
        p=joint_p(p_texts, p_seeds, seeds=seeds, texts=count),
        texts_test=test,
    )


def joint_p(
    p_texts: float | None, p_seeds: float | None, *, seeds: int, texts: int | None
) -> float | None:
    """Return the p of a difference under chance among seeds and texts at once, see `join`.

    `p_texts` and `texts` are None if outcomes are unknown: then `p_seeds` counts. `p_seeds` is None
    if all seeds have the same difference: then `p_texts` counts. The result is None for fewer than
    `FEWEST_SEEDS` seeds, and without a test.
    """
    if seeds < FEWEST_SEEDS:
        return None
    if p_texts is None or p_seeds is None or texts is None:
        return p_seeds if p_texts is None else p_texts
    return float(join(np.asarray(p_texts), np.asarray(p_seeds), seeds=seeds, texts=texts))


def join(p_texts: Array, p_seeds: Array, *, seeds: int, texts: int) -> Array:
    """Join the `[...]` p of both tests, for two seeds or more.

    Each test ignores the other kind of chance, and so does the larger p of both: where the two are
    of equal size, it is too small. So their statistics are joined in the min F' of Clark (1973):
    1 / min F' = 1 / F_seeds + 1 / F_texts, a lower bound of the quasi F ratio, whose denominator
    has the variance of both (Forster and Dickinson 1976). Its degrees of freedom are half of
    Satterthwaite's (1946), but not fewer than those of the seeds: with all of them, up to 1.5 times
    as many differences as the level allows come from chance. No p is below that of a single test.
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
    """Return p after the correction of Holm (1979); None, without a test, does not count."""
    corrected: list[float | None] = [None] * len(p_values)
    tested = [(p, index) for index, p in enumerate(p_values) if p is not None]
    largest = 0.0
    for rank, (p, index) in enumerate(sorted(tested)):
        # No p may come out below that of a smaller one.
        largest = max(largest, min(1.0, p * (len(tested) - rank)))
        corrected[index] = largest
    return corrected


def _test_seeds(first: Array, second: Array) -> tuple[float | None, float | None, float | None]:
    """Return both ends of the interval of the mean difference, and its p."""
    from scipy import stats

    differences = first - second
    mean, scale = float(np.mean(differences)), float(np.max(np.abs([first, second])))
    if float(np.ptp(differences)) <= _ROUNDING * scale:
        # Without spread there is no t statistic; only the texts can tell.
        return None, None, 1.0 if abs(mean) <= _ROUNDING * scale else None
    test = stats.ttest_rel(first, second)
    interval = test.confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high), float(test.pvalue)


# Chance among texts


@dataclass(frozen=True)
class _Texts:
    """The outcomes of two rows: `[S, N]` each, and `[N]` labels for all kinds but `mean`."""

    first: Array
    second: Array
    kind: Kind
    labels: Array | None = None

    def figure(self, outcomes: Array, labels: Array | None) -> Array:
        """Return `[...]` figures of `[..., S, N]` outcomes, the mean over seeds."""
        if self.kind == "mean" or labels is None:
            return np.asarray(np.mean(outcomes, axis=(-2, -1)))
        gold = np.broadcast_to(labels[..., None, :], outcomes.shape)
        if self.kind == "f1":
            hits = np.sum(outcomes * gold, axis=-1)
            # 0 where the class is neither predicted nor labelled: F1 is 0 / 1 below.
            ones = np.sum(outcomes, axis=-1) + np.sum(gold, axis=-1)
            return np.asarray(np.mean(2 * hits / np.maximum(1.0, ones), axis=-1))
        figures = (_macro_f1 if self.kind == "macro_f1" else _correlation)(outcomes, gold)
        return np.asarray(np.mean(figures, axis=-1))


def _macro_f1(outcomes: Array, gold: Array) -> Array:
    """Return the mean F1 of the classes that occur, along the last axis."""
    total = np.zeros(outcomes.shape[:-1])
    classes = np.zeros(outcomes.shape[:-1])
    for index in np.union1d(np.unique(outcomes), np.unique(gold)):
        predicted, labelled = outcomes == index, gold == index
        count = np.sum(predicted, axis=-1) + np.sum(labelled, axis=-1)
        total += 2 * np.sum(predicted & labelled, axis=-1) / np.maximum(1, count)
        classes += count > 0
    return np.asarray(total / classes)


def _correlation(first: Array, second: Array) -> Array:
    """Return Pearson's correlation along the last axis; 0 where an input is constant."""
    from scipy import stats

    with warnings.catch_warnings():
        # A resample may consist of a single value.
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        correlation = stats.pearsonr(first, second, axis=-1).statistic
    return np.asarray(np.nan_to_num(np.asarray(correlation, float), nan=0.0))


def _pair_texts(
    first: Side, second: Side, kind: Kind, labels: Sequence[float] | None
) -> _Texts | None:
    """Return the outcomes as arrays; None if they are unknown."""
    if first.outcomes is None or second.outcomes is None:
        return None
    a, b = (np.asarray(side.outcomes, float) for side in (first, second))
    expected = (len(first.values), a.shape[-1])
    if a.shape != expected or b.shape != expected or not a.shape[-1]:
        msg = (
            f"got outcomes of shapes {a.shape} and {b.shape} for {len(first.values)} seeds, "
            "expected the same samples of each seed"
        )
        raise ValueError(msg)
    if kind == "mean":
        return _Texts(a, b, kind)
    gold = None if labels is None else np.asarray(labels, float)
    if gold is None or gold.shape != a.shape[-1:]:
        msg = f"got {kind} without a gold value for each sample, expected them"
        raise ValueError(msg)
    if kind == "f1":
        # F1 is that of class 1.
        return _Texts((a == 1).astype(float), (b == 1).astype(float), kind, gold == 1)
    if kind == "macro_f1":
        return _Texts(a, b, kind, gold)
    if kind == "spearman":
        from scipy import stats

        # Pearson's correlation of the ranks, in single precision as in the program's metric.
        a, b = (stats.rankdata(side.astype(np.float32), axis=-1) for side in (a, b))
        gold = stats.rankdata(gold.astype(np.float32))
    # A swap must not depend on the scale of a model's predictions.
    return _Texts(_standardise(a), _standardise(b), kind, gold)


def _standardise(outcomes: Array) -> Array:
    """Return each seed's predictions with mean 0 and deviation 1; zeros if they are constant."""
    centred = outcomes - outcomes.mean(axis=-1, keepdims=True)
    deviation = centred.std(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def _test_texts(texts: _Texts) -> tuple[float, Test]:
    """Return the p over texts, and the name of its test."""
    first, second, labels = texts.first, texts.second, texts.labels
    if texts.kind == "mean":
        if len(first) == 1 and bool(np.isin([first, second], (0.0, 1.0)).all()):
            from attacks.paired_shares import mcnemar  # loads torch

            lost, gained = (first[0] > second[0]).sum(), (second[0] > first[0]).sum()
            return mcnemar(int(lost), int(gained)), "McNemar"
        # To swap the outcomes of a text is to turn the sign of their difference; 0 has no sign.
        signed = (first - second).sum(axis=0)
        signed = signed[signed != 0]
        # Outcomes have ten digits: without rounding, equal sums would not tie.
        scale = np.sum(np.abs(signed))

        def total(data: Array, axis: int) -> Array:
            return np.asarray(np.round(data.sum(axis=axis) / scale, 8))

        return _permute((signed,), total, 1), "permutation"
    # A swap of equal outcomes changes nothing: only the other texts are permuted.
    varied = np.flatnonzero(np.any(first != second, axis=0))
    fixed = np.setdiff1d(np.arange(first.shape[-1]), varied)
    labels = None if labels is None else labels[np.concatenate([varied, fixed])]

    def difference(*sides: Array, axis: int) -> Array:
        """Return the difference of figures; 0 and 1 in a side name the row of each text."""
        del axis  # the last one
        figures = []
        for side in sides:
            mixed = np.where(side[..., None, :] == 0, first[:, varied], second[:, varied])
            rest = np.broadcast_to(first[:, fixed], (*mixed.shape[:-1], len(fixed)))
            figures.append(texts.figure(np.concatenate([mixed, rest], axis=-1), labels))
        return np.asarray(figures[0] - figures[1])

    sides = np.zeros(len(varied)), np.ones(len(varied))
    return _permute(sides, difference, len(first)), "permutation"


def _permute(data: tuple[Array, ...], statistic: Callable[..., Array], seeds: int) -> float:
    """Return the p of a statistic whose samples are swapped text by text."""
    from scipy import stats

    texts = data[0].size
    if texts < 2:  # nothing to swap; or a single text, which has the same size either way round
        return 1.0
    test = stats.permutation_test(
        data,
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        # Else SciPy holds all resamples in memory at once.
        batch=max(1, _BATCH // (texts * seeds)),
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def _bootstrap(texts: _Texts) -> tuple[float | None, float | None]:
    """Return the ends of the percentile interval over texts; all seeds share the drawn texts."""
    from scipy import stats

    size = texts.first.shape[-1]
    if size < 2:
        return None, None

    def statistic(drawn: Array, axis: int = -1) -> Array:
        del axis  # the last one
        indices = drawn.astype(np.int64)  # [B, N], as SciPy resamples the numbers of texts
        labels = None if texts.labels is None else texts.labels[indices]
        # `[S, B, N]` outcomes of B resamples to `[B, S, N]`.
        first, second = (
            texts.figure(np.moveaxis(side[:, indices], 0, -2), labels)
            for side in (texts.first, texts.second)
        )
        return np.asarray(first - second)

    interval = stats.bootstrap(
        (np.arange(size, dtype=float),),
        statistic,
        method="percentile",
        confidence_level=CONFIDENCE,
        vectorized=True,
        n_resamples=RESAMPLES,
        # Else SciPy holds all resamples in memory at once.
        batch=max(1, _BATCH // texts.first.size),
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(interval.low), float(interval.high)


# Figures of a split


def score(
    outcomes: Sequence[float], *, kind: Kind = "mean", labels: Sequence[float] | None = None
) -> float:
    """Return the figure of `[N]` outcomes of a split; all kinds but `mean` need `[N]` gold labels.

    Raises:
        ValueError: no outcomes, or no labels.
    """
    if not len(outcomes):
        msg = "got no samples, expected at least one"
        raise ValueError(msg)
    if kind == "mean":
        return math.fsum(outcomes) / len(outcomes)
    side = Side(values=[0.0], outcomes=[outcomes])
    texts = _pair_texts(side, side, kind, labels)
    assert texts is not None  # there are outcomes
    return float(texts.figure(texts.first, texts.labels))


def agree(figure: float, value: float, kind: Kind) -> bool:
    """Return True if a figure from samples equals that of `results.json`, but for its rounding."""
    if kind in ("spearman", "pearson"):
        return math.isclose(figure, value, rel_tol=0.0, abs_tol=_RANKED)
    return math.isclose(figure, value, rel_tol=_SINGLE, abs_tol=0.1 * _SINGLE)


def kind_of(metric: str) -> Kind:
    """Return the `Kind` of a metric by the last part of its name."""
    last = metric.rsplit("/", 1)[-1]
    kinds: tuple[Kind, ...] = ("spearman", "pearson", "f1", "macro_f1")
    return next((kind for kind in kinds if kind == last), "mean")


_SHARES = re.compile(
    r"(?:.*_)?(?:accuracy|rate|f1|auc|precision|recall|alarms|detected)(?:(?:@|_at_).*)?"
)


def is_share(metric: str) -> bool:
    """Return True for a metric between 0 and 1, by the last part of its name."""
    return _SHARES.fullmatch(metric.rpartition("/")[2]) is not None


def bounds_of(metric: str, scale: float = 1.0) -> Bounds:
    """Return the bounds of a metric times a scale; shares, correlations and radii have some."""
    last = metric.rpartition("/")[2]  # of certify/radius_correct: radius_correct
    low, high = UNBOUNDED
    if is_share(metric):
        low, high = 0.0, 1.0
    elif last in ("spearman", "pearson"):
        low, high = -1.0, 1.0
    elif "radius" in last:  # also of mean_radius
        low = 0.0
    ends = sorted((low * scale, high * scale)) if scale else UNBOUNDED
    return ends[0], ends[1]
