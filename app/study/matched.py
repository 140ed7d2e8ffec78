"""Compares rows at equal accuracy: a row beside the line through early checkpoints of another.

A weaker model may resist an attack better, or worse, by its accuracy alone. Rows of one kind at
several accuracies are points of a plane (accuracy to the right, accuracy under attack upwards), and
straight lines join them. A row is held against the line at its own accuracy. Outside of the line
nothing is said: there is no extrapolation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.study.uncertainty import CONFIDENCE, RESAMPLES, Array, Side

_BATCH = 2**22
"""Numbers that a batch of resamples may hold."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A row in the plane.

    Attributes:
        across: its accuracy.
        up: its figure that is compared.
    """

    across: Side
    up: Side


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A row beside the line.

    Attributes:
        line: height of the line at the accuracy of the row.
        effect: height of the row above it.
        low: lower end of the 95 % interval of the effect, by the bootstrap over texts; None where
            the outcomes of texts are not known.
        high: upper end.
    """

    line: float
    effect: float
    low: float | None = None
    high: float | None = None


def beside(row: Spot, line: Sequence[Spot]) -> Beside | None:
    """Holds a row against a line at the row's accuracy.

    The interval is that of the percentile bootstrap over texts, of which all rows and seeds are
    drawn together. The texts of the two figures are drawn independently, as an attack may have
    others than the test. Chance among seeds has no part in it. Where a resample moves the row
    beyond an end of the line, the height of that end counts.

    Args:
        row: the row.
        line: rows of one kind, measured on the same samples; at least two.

    Returns:
        None where the row is less, or more accurate than all of the line.

    Raises:
        ValueError: fewer than two rows in the line, or other numbers of samples than of the row.
    """
    if len(line) < 2:
        msg = f"got a line of {len(line)} rows, expected at least two"
        raise ValueError(msg)
    sides = [one.across for one in (row, *line)], [one.up for one in (row, *line)]
    at, height = (np.asarray([np.mean(side.values) for side in of]) for of in sides)
    if not at[1:].min() <= at[0] <= at[1:].max():
        return None
    [effect] = _above(at[None], height[None])
    outcomes = [_outcomes(of) for of in sides]
    low = high = None
    if outcomes[0] is not None and outcomes[1] is not None:
        drawn = [_resampled(one, seed) for seed, one in enumerate(outcomes) if one is not None]
        share = (1 - CONFIDENCE) / 2
        low, high = (float(end) for end in np.quantile(_above(*drawn), (share, 1 - share)))
    return Beside(line=float(height[0] - effect), effect=float(effect), low=low, high=high)


def _above(at: Array, height: Array) -> Array:
    """`[B]` heights of the first of `[B, 1 + K]` points above the line through the others."""
    found = np.empty(len(at))
    for i, (x, y) in enumerate(zip(at, height, strict=True)):
        # Points above each other are one point of their mean height.
        places, which = np.unique(x[1:], return_inverse=True)
        heights = np.bincount(which, weights=y[1:]) / np.bincount(which)
        found[i] = y[0] - np.interp(x[0], places, heights)
    return found


def _outcomes(sides: Sequence[Side]) -> Array | None:
    """`[N, K]` mean outcome over seeds of each text, for each row; None where one is not known."""
    every = [
        np.mean(np.asarray(side.outcomes, float), axis=0)
        for side in sides
        if side.outcomes is not None
    ]
    if len(every) < len(sides):
        return None
    if len({len(one) for one in every}) > 1:
        sizes = ", ".join(str(len(one)) for one in every)
        msg = f"got rows with {sizes} samples, expected the same samples of each"
        raise ValueError(msg)
    return np.stack(every, axis=-1)


def _resampled(outcomes: Array, seed: int) -> Array:
    """`[RESAMPLES, K]` means of `[N, K]` outcomes over texts that are drawn with replacement."""
    return np.concatenate([counts @ outcomes / len(outcomes) for counts in _counts(outcomes, seed)])


def _counts(outcomes: Array, seed: int) -> Iterator[NDArray[np.float64]]:
    """How often each text is drawn, in batches of resamples."""
    texts = len(outcomes)
    rng = np.random.default_rng(seed)
    size = max(1, _BATCH // texts)
    for first in range(0, RESAMPLES, size):
        many = min(size, RESAMPLES - first)
        yield rng.multinomial(texts, np.full(texts, 1 / texts), size=many).astype(float)
