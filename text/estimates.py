"""Shares and means with 95 % intervals, and tables of them as text; no torch is needed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A share or a mean.

    Attributes:
        value: the estimate.
        low: lower end of its 95 % interval.
        high: upper end.
        count: samples that it is made from.
    """

    value: float
    low: float
    high: float
    count: int


def wilson(hits: int, count: int) -> IntervalEstimate:
    """Return a share with Wilson's score interval (1927), which is right near 0 and 1, too.

    Raises:
        ValueError: no samples, or more hits than samples.
    """
    if count < 1 or not 0 <= hits <= count:
        msg = f"got {hits} of {count}, expected a share of at least one sample"
        raise ValueError(msg)
    share, z2 = hits / count, Z * Z
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    # Wilson (1927): the interval is not symmetric around the share.
    half = Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if hits == 0 else centre - half
    return IntervalEstimate(share, low, 1.0 if hits == count else centre + half, count)


def student(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def mean(values: Sequence[float], *, top: float = math.inf) -> IntervalEstimate | None:
    """Return a mean with Student's interval; None of no values.

    Args:
        values: one per sample, none negative.
        top: largest possible value, which cuts the interval.
    """
    count = len(values)
    if not count:
        return None
    centre = math.fsum(values) / count
    # Student's t has no interval for one value: the whole range.
    if count == 1:
        return IntervalEstimate(centre, 0.0, top, 1)
    variance = math.fsum((value - centre) ** 2 for value in values) / (count - 1)
    half = student(count - 1) * math.sqrt(variance / count)
    return IntervalEstimate(centre, max(0.0, centre - half), min(top, centre + half), count)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text, with a line below its first row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def interval(estimate: IntervalEstimate, digits: int) -> str:
    """Return the ends of an interval, as the table shows them."""
    if math.isinf(estimate.high):
        return "one sample"
    return f"{estimate.low:.{digits}f} - {estimate.high:.{digits}f}"
