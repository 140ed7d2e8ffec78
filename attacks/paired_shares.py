"""Two shares over the same samples: their difference with its interval, and McNemar's test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from text.estimates import IntervalEstimate, Z, wilson


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedShares:
    """Shares of the same samples under two conditions.

    Attributes:
        first: share under the first condition, with Wilson's interval.
        second: share under the second one.
        difference: second minus first, with the interval of Bonett and Price (2012).
        lost: samples that hold under the first condition only.
        gained: samples that hold under the second one only.
        p: of the exact test of McNemar (1947) for no difference.
    """

    first: IntervalEstimate
    second: IntervalEstimate
    difference: IntervalEstimate
    lost: int
    gained: int
    p: float


def paired_shares(first: Sequence[bool], second: Sequence[bool]) -> PairedShares:
    """Compare two conditions by the outcomes of the same samples in the same order.

    Raises:
        ValueError: no samples, or other numbers of them.
    """
    count = len(first)
    if not count or len(second) != count:
        msg = f"got {count} and {len(second)} outcomes, expected two of each of at least one sample"
        raise ValueError(msg)
    lost = sum(a and not b for a, b in zip(first, second, strict=True))
    gained = sum(b and not a for a, b in zip(first, second, strict=True))
    # Bonett, Price, "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions
    # Based on Paired Data", 2012: one more sample of each kind of change.
    down, up = (lost + 1) / (count + 2), (gained + 1) / (count + 2)
    half = Z * math.sqrt((up + down - (up - down) ** 2) / (count + 2))
    low, high = max(-1.0, up - down - half), min(1.0, up - down + half)
    return PairedShares(
        first=wilson(sum(first), count),
        second=wilson(sum(second), count),
        difference=IntervalEstimate((gained - lost) / count, low, high, count),
        lost=lost,
        gained=gained,
        p=mcnemar(lost, gained),
    )


def mcnemar(lost: int, gained: int) -> float:
    """Return the p value of McNemar's exact test of two numbers of changes."""
    from scipy.stats import binomtest

    total = lost + gained
    return float(binomtest(lost, total).pvalue) if total else 1.0
