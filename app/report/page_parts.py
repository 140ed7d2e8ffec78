"""Cells of tables and pairs of texts, for all parts of the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from measure.attack_report import Piece
from text.estimates import IntervalEstimate, wilson

WORST = 5
"""Texts of each attack, and rows of the table of the tightest sandwiches."""
_LONGEST = 320
"""Characters of an unchanged part of a text; longer parts lose their middle."""


class FigureCell(NamedTuple):
    """A figure with its interval, both as text; the interval is "" if there is none."""

    value: str
    interval: str = ""


@dataclass(frozen=True)
class TextPair:
    """Parts of clean and changed texts; `broken` if the change is inside the certificate."""

    title: str
    facts: Sequence[str]
    before: Sequence[Sequence[Piece]]
    after: Sequence[Sequence[Piece]]
    broken: bool


def share_cell(value: float | None, count: int) -> FigureCell:
    """Return a share; with its interval if it can be a share of so many texts."""
    if value is None:
        return FigureCell("not finite")
    hits = round(value * count)
    # A share of other texts, or a mean over batches, gets no interval.
    exact = count > 0 and abs(hits / count - value) < 1e-4 and 0 <= hits <= count
    return FigureCell(format_number(value), format_interval(wilson(hits, count)) if exact else "")


def estimate_cell(estimate: IntervalEstimate | None) -> FigureCell:
    """Return an estimate with its interval."""
    if estimate is None:
        return FigureCell("–")
    return FigureCell(format_number(estimate.value), format_interval(estimate))


def format_interval(estimate: IntervalEstimate) -> str:
    """Return the interval of an estimate as text."""
    if math.isinf(estimate.high):  # Student's interval needs two texts
        return "one text"
    return f"{estimate.low:.4f} to {estimate.high:.4f}, {estimate.count} texts"


def format_number(value: float | None) -> str:
    """Return a number as text."""
    if value is None:
        return "–"
    return f"{value:.4f}" if math.isfinite(value) else "not finite"


def shorten(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the parts of a text without the middle of long unchanged ones."""
    half = _LONGEST // 2
    return [
        piece
        if piece.changed or len(piece.text) <= _LONGEST
        else Piece(f"{piece.text[:half]} […] {piece.text[-half:]}", False)
        for piece in pieces
    ]
