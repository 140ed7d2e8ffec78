"""Straight lines above and below a function of one number, on an interval.

`band` has two lines of one slope, `lines` may have two. Proofs: docs/certificates/baselines.md.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

Kind = Literal["relu", "gelu", "exp", "abs"]

GELU_POINTS = 64
"""Parts that an interval is cut into to find the extremes of GELU minus a line."""
GELU_CURVATURE = 2 / math.sqrt(2 * math.pi)
"""Largest |GELU''|: phi(x) |2 - x^2| is largest at 0."""


class Band(NamedTuple):
    """`slope * x + low <= f(x) <= slope * x + high` on an interval."""

    slope: Tensor
    low: Tensor
    high: Tensor


class Lines(NamedTuple):
    """`low_slope * x + low <= f(x) <= high_slope * x + high` on an interval."""

    low_slope: Tensor
    low: Tensor
    high_slope: Tensor
    high: Tensor


def value(kind: Kind, x: Tensor) -> Tensor:
    """Return f(x)."""
    if kind == "relu":
        return x.relu()
    if kind == "abs":
        return x.abs()
    return functional.gelu(x) if kind == "gelu" else x.exp()


def extremes(kind: Kind, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers below and above f on an interval; infinite for GELU: its band is as good."""
    if kind == "gelu":
        nowhere = torch.full_like(lower, torch.inf)
        return -nowhere, nowhere
    ends = value(kind, lower), value(kind, upper)
    if kind != "abs":
        return ends  # it rises
    inside = (lower < 0) & (upper > 0)
    return torch.minimum(*ends).masked_fill(inside, 0.0), torch.maximum(*ends)


def band(kind: Kind, lower: Tensor, upper: Tensor) -> Band:
    """Return two parallel lines around a function on [lower, upper], of the chord's slope."""
    width = upper - lower
    ends = value(kind, lower), value(kind, upper)
    wide = width > 1e-9  # below this the quotient of the chord would be rounding
    slope = torch.where(wide, (ends[1] - ends[0]) / torch.where(wide, width, 1.0), 0.0)
    if kind == "relu":
        # On one side of 0 the function is its chord; else it is below the chord and above slope*x.
        # On a short interval slope is 0, and the function is between its ends.
        chord = torch.where(wide, ends[0] - slope * lower, ends[1])
        low = torch.where((lower >= 0) & wide, chord, torch.where(wide, 0.0, ends[0]))
        return Band(slope, low, chord)
    if kind == "abs":
        # As ReLU. On a short interval slope is 0.
        chord = torch.where(wide, ends[0] - slope * lower, torch.maximum(*ends))
        flat = extremes("abs", lower, upper)[0]
        crossing = (lower < 0) & (upper > 0)
        low = torch.where(wide, chord.masked_fill(crossing, 0.0), flat)
        return Band(slope, low, chord)
    if kind == "exp":
        # Convex: the chord is above it, and the tangent of its slope, at log(slope), below it. On
        # a short interval slope is 0, and the function is between its ends.
        tiny = torch.finfo(slope.dtype).tiny
        tangent = slope - slope * slope.clamp_min(tiny).log()
        low = torch.where(wide, tangent, ends[0])
        return Band(slope, low, torch.where(wide, ends[0] - slope * lower, ends[1]))
    share = torch.linspace(0, 1, GELU_POINTS + 1, dtype=lower.dtype, device=lower.device)
    points = lower.unsqueeze(-1) + width.unsqueeze(-1) * share
    gaps = functional.gelu(points) - slope.unsqueeze(-1) * points
    # Between two points a function with |f''| <= D leaves its chord by at most D h^2 / 8.
    off = GELU_CURVATURE * (width / GELU_POINTS).square() / 8
    return Band(slope, gaps.amin(dim=-1) - off, gaps.amax(dim=-1) + off)


def lines(kind: Kind, lower: Tensor, upper: Tensor) -> Lines:
    """Return two lines around a function on [lower, upper], those of CROWN for a backward pass.

    ReLU: the chord above; below slope 1 or 0, whichever leaves the smaller triangle; the absolute
    value likewise, with 1 or -1. exp: the chord above, the tangent at the middle below. GELU:
    `band`.
    """
    around = band(kind, lower, upper)
    low_slope, low = around.slope, around.low
    if kind == "relu":
        crossing = (lower < 0) & (upper > 0)
        low_slope = torch.where(crossing, (upper > -lower).to(low.dtype), low_slope)
        low = torch.where(crossing, torch.zeros_like(low), low)
    elif kind == "abs":
        crossing = (lower < 0) & (upper > 0)
        steep = torch.where(upper > -lower, 1.0, -1.0).to(low.dtype)
        low_slope = torch.where(crossing, steep, low_slope)
        low = low.masked_fill(crossing, 0.0)
    elif kind == "exp":
        middle = (lower + upper) / 2
        low_slope = middle.exp()
        low = low_slope * (1 - middle)
    return Lines(low_slope, low, around.slope, around.high)
