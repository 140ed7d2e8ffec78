"""Cells of tables and pairs of texts, for all parts of the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.attack.attack_report import Piece
from attacks.summary import IntervalEstimate, wilson

WORST = 5
"""Texts of each attack, and rows of the table of the tightest sandwiches."""
_LONGEST = 320
"""Characters of an unchanged part of a text; the middle of longer ones is left out."""


class Cell(NamedTuple):
    """A figure with its interval.

    Attributes:
        value: as text.
        interval: as text; "" without one.
    """

    value: str
    interval: str = ""


@dataclass(frozen=True)
class Worst:
    """A text and a changed one with another prediction.

    Attributes:
        title: of its row.
        facts: lines about it.
        before: parts of each clean text.
        after: parts of each changed text.
        broken: True if it lies inside its certificate.
    """

    title: str
    facts: Sequence[str]
    before: Sequence[Sequence[Piece]]
    after: Sequence[Sequence[Piece]]
    broken: bool


def share_cell(value: float | None, count: int) -> Cell:
    """Returns a share, with its interval where it is one of so many texts."""
    if value is None:
        return Cell("not finite")
    hits = round(value * count)
    whole = count > 0 and abs(hits / count - value) < 1e-4 and 0 <= hits <= count
    return Cell(shown(value), interval(wilson(hits, count)) if whole else "")


def estimate_cell(one: IntervalEstimate | None) -> Cell:
    """Returns an estimate with its interval."""
    return Cell("–") if one is None else Cell(shown(one.value), interval(one))


def interval(one: IntervalEstimate) -> str:
    """Returns the interval of an estimate as text."""
    if math.isinf(one.high):
        return "one text"
    return f"{one.low:.4f} to {one.high:.4f}, {one.count} texts"


def shown(value: float | None) -> str:
    """Returns a number as text."""
    if value is None:
        return "–"
    return f"{value:.4f}" if math.isfinite(value) else "not finite"


def shortened(pieces: Sequence[Piece]) -> list[Piece]:
    """Returns the parts of a text without the middle of long unchanged ones."""
    half = _LONGEST // 2
    return [
        piece
        if piece.changed or len(piece.text) <= _LONGEST
        else Piece(f"{piece.text[:half]} […] {piece.text[-half:]}", False)
        for piece in pieces
    ]
