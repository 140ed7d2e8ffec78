"""Intervals of the scores of `test` that are no shares of texts: F1, calibration, ranking."""

from collections.abc import Mapping

from text.estimates import IntervalEstimate, auc_error, score

_TOPS = {"macro_f1": 1.0, "f1": 1.0, "ece": 1.0, "brier": 2.0}
"""Largest values of scores with a standard error in the results."""


def score_interval(metrics: Mapping[str, float | None], name: str) -> IntervalEstimate | None:
    """Return a score `test/NAME` of `results.json` with its 95 % interval over the texts.

    F1 and calibration have a standard error among the metrics. The area under the ROC curve has
    that of Hanley and McNeil (1982), the average precision the interval of a share of the positive
    texts (Boyd et al., 2013). None for scores without such an interval, and for an older `test`.
    """
    value, error, samples, positives, negatives = (
        metrics.get(f"test/{key}")
        for key in (name, f"{name}_se", "samples", "positives", "negatives")
    )
    if value is None:
        return None
    if name in _TOPS and error is not None and samples:
        return score(value, error, int(samples), top=_TOPS[name])
    if not positives or not negatives:
        return None
    if name == "auc":
        error = auc_error(value, int(positives), int(negatives))
        # Without error the rarer class bounds the number of pairs that are independent.
        return score(value, error, int(min(positives, negatives)))
    return score(value, 0.0, int(positives)) if name == "average_precision" else None
