"""Shares and means with 95 % intervals, and tables of them as text; no torch is needed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
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

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def wilson(hits: int, count: int) -> IntervalEstimate:
    """Return a share with Wilson's score interval (1927), which is right near 0 and 1, too.

    Raises:
        ValueError: no samples, or more hits than samples.
    """
    if count < 1 or not 0 <= hits <= count:
        msg = f"got {hits} of {count}, expected a share of at least one sample"
        raise ValueError(msg)
    share = hits / count
    return IntervalEstimate(share, *_wilson(share, count), count)


def _wilson(share: float, count: float) -> tuple[float, float]:
    z2 = Z * Z
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    # Wilson (1927): the interval is not symmetric around the share.
    half = Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    # At the ends the formula gives 0 and 1 but for rounding.
    return 0.0 if share <= 0 else centre - half, 1.0 if share >= 1 else centre + half


def score(value: float, error: float, count: int, *, top: float = 1.0) -> IntervalEstimate:
    """Return a score with Wilson's interval of its effective sample size.

    That is the number of samples with which a share of this size has the same standard error (Korn
    and Graubard, 1998). So the interval is within the bounds of the score, and not empty where all
    samples agree: without error, all samples count.

    Args:
        value: the score, from 0 to `top`.
        error: its standard error.
        count: samples that it is made from, at least one.
        top: largest possible value.
    """
    share = min(1.0, value / top)
    variance = share * (1 - share)
    effective = variance * (top / error) ** 2 if error > 0 and variance > 0 else count
    low, high = _wilson(share, effective)
    return IntervalEstimate(value, top * low, top * high, count)


def auc_error(auc: float, positives: int, negatives: int) -> float:
    """Return the standard error of an area under the ROC curve (Hanley and McNeil, 1982)."""
    of_positives, of_negatives = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (positives - 1) * (of_positives - auc**2)
    variance += (negatives - 1) * (of_negatives - auc**2)
    return math.sqrt(max(0.0, variance) / (positives * negatives))


@cache
def student(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t distribution.

    From Abramowitz and Stegun (1964): the expansion 26.7.5, and for few degrees of freedom Newton's
    method with the finite sums 26.7.3 and 26.7.4. scipy has the same, and is slow to load.
    """
    n, z = freedom, Z
    t = z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    t += (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    # From 500 on, the expansion has 13 digits; below, Newton's method begins at its smaller value.
    for _ in range(8 if n < 500 else 0):
        angle = math.atan(t / math.sqrt(n))
        term = total = math.cos(angle) if n % 2 else 1.0
        for i in range(2 + n % 2, n - 1, 2):
            term *= (i - 1) / i * math.cos(angle) ** 2
            total += term
        total *= math.sin(angle)
        inside = total if n % 2 == 0 else 2 / math.pi * (angle + total * (n > 1))
        height = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))
        height *= (1 + t * t / n) ** (-(n + 1) / 2) / math.sqrt(n * math.pi)
        t += (0.95 - inside) / (2 * height)
    return t


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


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return rows of texts as a Markdown table; the cells are escaped already."""
    return "\n".join([markdown_row(head), "|---" * len(head) + "|", *map(markdown_row, rows)])


def markdown_row(cells: Iterable[str]) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
