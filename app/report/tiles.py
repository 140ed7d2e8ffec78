"""The main figures of a verdict as tiles, and runs against each other."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.report.report_pictures import Picture, RunPoint, trade_off_picture
from measure.verdict import FigureKind, RunVerdict, VerdictFigure

_MOST = 4
"""Tiles of a run."""


class Tile(NamedTuple):
    """A figure: title, value, interval and count, and a sentence; texts to show."""

    title: str
    value: str
    interval: str
    note: str


def main_figure(verdict: RunVerdict, kind: FigureKind) -> VerdictFigure | None:
    """Return the main figure of a kind: that of the strongest attack, of the widest set."""
    figures = verdict.of_kind(kind)
    if kind in ("attack", "words"):
        return min(figures, key=lambda figure: figure.value, default=None)
    # Radii are theorems, PGD is an attack on the same vectors.
    ranked = sorted(figures, key=lambda figure: kind == "radius" and "radius" not in figure.name)
    return next(iter(ranked), None)


def tiles(verdict: RunVerdict) -> list[Tile]:
    """Return the first figures that were measured: clean, attacked, in words, radius and so on."""
    # A detector has two main figures: recall and false alarms.
    chosen = [*verdict.of_kind("clean")[:1], *verdict.of_kind("detection")[:2]]
    for kind in ("attack", "words", "radius", "calibration"):
        figure = main_figure(verdict, kind)
        chosen += [] if figure is None else [figure]
    # Scores of clean texts fill what was not measured.
    chosen += [figure for figure in verdict.figures if figure not in chosen]
    return [tile(figure) for figure in chosen[:_MOST]]


def tile(figure: VerdictFigure) -> Tile:
    """Return a figure as texts to show."""
    # Without interval and count, the text of a figure is its value alone.
    value, _, rest = figure.text.partition(" ")
    compared = [f"{reference.title}: {reference.value:.3f}" for reference in figure.references]
    notes = [*compared, *([figure.note] if figure.note else [])]
    return Tile(figure.title, value, rest, "; ".join(notes))


def trade_off(name: str, verdicts: Mapping[str, RunVerdict]) -> Picture | None:
    """Draw robust against clean accuracy of runs; None without two runs that have both."""
    panels: dict[str, Sequence[RunPoint]] = {}
    titles: dict[FigureKind, str] = {
        "attack": "Under the strongest attack",
        "words": "Certified in words",
    }
    for kind, title in titles.items():
        points = []
        for run, verdict in verdicts.items():
            clean, robust = main_figure(verdict, "clean"), main_figure(verdict, kind)
            if clean is not None and robust is not None and not verdict.collapsed:
                points.append(RunPoint(run, clean.estimate, robust.estimate))
        if len(points) > 1:
            panels[title] = points
    return trade_off_picture(name, panels) if panels else None
