"""Figures of attacks on models other than classifiers, clean and under attack."""

from collections.abc import Callable, Sequence

import numpy as np

from attacks.goals import Floats
from attacks.outcome import AttackRecord
from attacks.task_goals import Label, VictimTask, align_tags, split_words
from text.entities import entities
from text.estimates import IntervalEstimate, mean

RESAMPLES = 1000
"""Of the bootstrap."""
_VALUES = 1 << 20
"""Rows of the resamples that are in memory at the same time."""
NAMES = ("f1", "absolute_error", "spearman")
"""Names of the figures under attack; those without attack begin with `clean_`."""


def task_figures(
    records: Sequence[AttackRecord], task: VictimTask
) -> dict[str, IntervalEstimate | None]:
    """Return the figures of a task by name; none of a classification or a multiple choice.

    Texts that are not attacked keep their clean prediction. F1 is micro-averaged over entities that
    match exactly, or over the classes of texts. Its interval and that of the rank correlation are
    percentiles of a bootstrap over texts; they are None where the figure is not defined. Records
    have no errors.
    """
    figures: dict[str, IntervalEstimate | None] = {}
    for prefix, succeeded in (("clean_", False), ("", True)):
        last = [_last(record, succeeded=succeeded) for record in records]
        if task in ("multi-label", "tagging"):
            sets = [
                _sets(record, text, prediction, task)
                for record, (text, prediction) in zip(records, last, strict=True)
            ]
            counts = np.array([[len(a & b), len(a) + len(b)] for a, b in sets], dtype=np.float64)
            figures[f"{prefix}f1"] = _bootstrap(counts, _f1)
        elif task == "regression":
            pairs = np.array(
                [[record.label, p] for record, (_, p) in zip(records, last, strict=True)],
                dtype=np.float64,
            )
            figures[f"{prefix}absolute_error"] = mean(np.abs(pairs[:, 0] - pairs[:, 1]).tolist())
            figures[f"{prefix}spearman"] = _bootstrap(pairs, _spearman)
    return figures


def _last(record: AttackRecord, *, succeeded: bool) -> tuple[str, Label | None]:
    """Return the text that counts, and its prediction: the adversarial one if there is one."""
    if succeeded and record.outcome == "succeeded" and isinstance(record.adversarial, str):
        return record.adversarial, record.adversarial_prediction
    if succeeded and record.outcome == "succeeded":
        return "", record.adversarial_prediction  # of a pair
    return record.text if isinstance(record.text, str) else "", record.prediction


def _sets(
    record: AttackRecord, text: str, prediction: Label | None, task: VictimTask
) -> tuple[set[object], set[object]]:
    """Return the gold and the predicted set of classes or entities of a text."""
    gold, predicted = record.label, prediction
    assert isinstance(gold, tuple)  # of these tasks
    assert isinstance(predicted, tuple)  # of these tasks
    if task == "multi-label":
        return set(gold), set(predicted)
    assert isinstance(record.text, str)  # taggers have no pairs
    tags = align_tags(split_words(record.text), gold, split_words(text))
    assert tags is not None  # a success keeps the entities
    return {*entities(tags)}, {*entities(predicted)}


def _f1(counts: Floats) -> Floats:
    """Return `[R]`: 2 hits / (gold + predicted), of `[R, n, 2]` counts; NaN of none."""
    hits, both = np.moveaxis(counts.sum(axis=1), 1, 0)
    f1: Floats = np.divide(2 * hits, both, out=np.full_like(hits, np.nan), where=both > 0)
    return f1


def _spearman(pairs: Floats) -> Floats:
    """Return `[R]`: rank correlations of `[R, n, 2]` numbers; NaN where one does not vary."""
    from scipy.stats import rankdata  # slow to load

    ranks = rankdata(pairs, axis=1)
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    covariance = (ranks[..., 0] * ranks[..., 1]).sum(axis=1)
    spread = np.sqrt((ranks**2).sum(axis=1)).prod(axis=1)
    correlations: Floats = np.divide(
        covariance, spread, out=np.full_like(spread, np.nan), where=spread > 0
    )
    return correlations


def _bootstrap(rows: Floats, figure: Callable[[Floats], Floats]) -> IntervalEstimate | None:
    """Return a figure of `[n, 2]` rows with its 95 % interval, by percentiles."""
    value = float(figure(rows[None])[0])
    if np.isnan(value):
        return None
    random, size = np.random.default_rng(0), len(rows)
    chunk = max(1, _VALUES // size)
    draws = [
        figure(rows[random.integers(0, size, (min(chunk, RESAMPLES - start), size))])
        for start in range(0, RESAMPLES, chunk)
    ]
    low, high = np.nanpercentile(np.concatenate(draws), [2.5, 97.5]).tolist()
    return IntervalEstimate(value, low, high, len(rows))
