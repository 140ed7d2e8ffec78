"""Compares rows at equal accuracy: a row with the line through early checkpoints of another.

A weaker model may resist an attack better, or worse, only because of its accuracy. Rows of one kind
at several accuracies are points of a plane (accuracy to the right, accuracy under attack upwards)
that straight lines join. A row is compared with the line at its own accuracy, without any
extrapolation beyond the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from measure.uncertainty import CONFIDENCE, RESAMPLES, Array, Side
from text.plural import plural

_BATCH = 2**22
"""Numbers that a batch of resamples may hold."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A row in the plane: its accuracy across, its compared figure up."""

    across: Side
    up: Side


@dataclass(frozen=True, kw_only=True)
class LineComparison:
    """The height of the line at the accuracy of a row, and of the row above the line (`effect`).

    `low` and `high` are the ends of its 95 % interval, by the bootstrap over texts; None if the
    outcomes of texts are unknown.
    """

    line: float
    effect: float
    low: float | None = None
    high: float | None = None


def compare_with_line(row: Spot, line: Sequence[Spot]) -> LineComparison | None:
    """Compare a row with a line, of at least two rows, at the row's accuracy; None beyond its ends.

    The interval is that of the percentile bootstrap over texts; all rows and seeds share the drawn
    texts. The texts of the two figures are drawn independently, as an attack may have other texts
    than the test. The interval leaves out chance among seeds.

    Raises:
        ValueError: fewer than two rows in the line, or different numbers of samples.
    """
    if len(line) < 2:
        msg = f"got a line of {plural(len(line), 'row')}, expected at least two"
        raise ValueError(msg)
    across, up = [spot.across for spot in (row, *line)], [spot.up for spot in (row, *line)]
    at, height = (np.asarray([np.mean(side.values) for side in sides]) for sides in (across, up))
    # `at[0]` is the row, the rest are the points of the line.
    if not at[1:].min() <= at[0] <= at[1:].max():
        return None
    effect = float(_height_above(at[None], height[None])[0])
    outcomes = _mean_outcomes(across), _mean_outcomes(up)
    low = high = None
    if outcomes[0] is not None and outcomes[1] is not None:
        # Independent seeds: the two figures may be about different texts.
        drawn = _resample(outcomes[0], seed=0), _resample(outcomes[1], seed=1)
        share = (1 - CONFIDENCE) / 2
        low, high = (float(end) for end in np.quantile(_height_above(*drawn), (share, 1 - share)))
    return LineComparison(line=float(height[0]) - effect, effect=effect, low=low, high=high)


def _height_above(at: Array, height: Array) -> Array:
    """Return `[B]` heights of the first of `[B, 1 + K]` points above the line through the rest."""
    above = np.empty(len(at))
    for i, (x, y) in enumerate(zip(at, height, strict=True)):
        # Points of equal accuracy are one point of their mean height.
        xs, index = np.unique(x[1:], return_inverse=True)
        heights = np.bincount(index, weights=y[1:]) / np.bincount(index)
        # A resample may move the row beyond an end of the line: the height of that end counts.
        above[i] = y[0] - np.interp(x[0], xs, heights)
    return above


def _mean_outcomes(sides: Sequence[Side]) -> Array | None:
    """Return `[N, K]` mean outcomes over the seeds of K rows; None if some are unknown."""
    means = [
        np.mean(np.asarray(side.outcomes, float), axis=0)
        for side in sides
        if side.outcomes is not None
    ]
    if len(means) < len(sides):
        return None
    if len({len(mean) for mean in means}) > 1:
        sizes = ", ".join(str(len(mean)) for mean in means)
        msg = f"got rows with {sizes} samples, expected the same samples of each"
        raise ValueError(msg)
    return np.stack(means, axis=-1)


def _resample(outcomes: Array, seed: int) -> Array:
    """Return `[RESAMPLES, K]` means of `[N, K]` outcomes over texts drawn with replacement."""
    texts = len(outcomes)
    rng = np.random.default_rng(seed)
    size = max(1, _BATCH // texts)
    means = []
    for first in range(0, RESAMPLES, size):
        # `[size, N]`: how often each text is drawn.
        counts = rng.multinomial(
            texts, np.full(texts, 1 / texts), size=min(size, RESAMPLES - first)
        )
        means.append(counts.astype(float) @ outcomes / texts)
    return np.concatenate(means)
