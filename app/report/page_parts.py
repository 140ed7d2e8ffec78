"""Cells of tables and changes of texts, for all parts of the page."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from attacks.document import word_spans
from run_files.terminal import harmless
from text.estimates import IntervalEstimate, wilson

LONGEST = 640
"""Most characters of a part of a text; a longer one loses its middle."""


class FigureCell(NamedTuple):
    """A figure with its interval, both as text; the interval is "" if there is none."""

    value: str
    interval: str = ""


class Change(NamedTuple):
    """A part of a changed text: kept (`old` equals `new`), or `old` words that became `new`."""

    old: str
    new: str


def share_cell(value: float | None, count: int) -> FigureCell:
    """Return a share; with its interval if it can be a share of so many texts."""
    if value is None:
        return FigureCell("not finite")
    cell, hits = FigureCell(format_number(value)), round(value * count)
    # A share of other texts, or a mean over batches, gets no interval.
    if count > 0 and abs(hits / count - value) < 1e-4 and 0 <= hits <= count:
        return cell._replace(interval=estimate_cell(wilson(hits, count)).interval)
    return cell


def estimate_cell(estimate: IntervalEstimate | None) -> FigureCell:
    """Return an estimate with its interval."""
    if estimate is None:
        return FigureCell("–")
    ends = f"{estimate.low:.3f} to {estimate.high:.3f}, {estimate.count:,} texts"
    # Student's interval needs two texts.
    interval = "one text" if math.isinf(estimate.high) else ends
    return FigureCell(format_number(estimate.value), interval)


def format_number(value: float | None) -> str:
    """Return a number as text."""
    if value is None:
        return "–"
    return f"{value:.3f}" if math.isfinite(value) else "not finite"


def shorten(text: str) -> str:
    """Return a part of a text for the page."""
    quarter = LONGEST // 4
    return harmless(text if len(text) <= LONGEST else f"{text[:quarter]} […] {text[-quarter:]}")


def changes(before: str, after: str) -> Iterator[Change]:
    """Yield the parts of a text and of its changed form; neighbouring changes are one part.

    Signs between words are those of the changed text.
    """
    spans, new_spans = word_spans(before), word_spans(after)
    codes = Levenshtein.opcodes(
        [before[start:end] for start, end in spans], [after[start:end] for start, end in new_spans]
    )
    position = 0
    for code in codes:
        if code.tag == "equal":
            continue
        old, new = spans[code.src_start : code.src_end], new_spans[code.dest_start : code.dest_end]
        if new:
            start, end = new[0][0], new[-1][1]
        else:
            # Deleted words are shown before the next word of the changed text.
            start = end = (
                new_spans[code.dest_start][0] if code.dest_start < len(new_spans) else len(after)
            )
        if kept := after[position:start]:
            yield Change(kept, kept)
        yield Change(before[old[0][0] : old[-1][1]] if old else "", after[start:end])
        position = end
    if kept := after[position:]:
        yield Change(kept, kept)
