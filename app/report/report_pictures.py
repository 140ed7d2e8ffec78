"""The pictures of a report: SVG for the page, in its colours, and for files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, NamedTuple

import numpy as np

from measure import charts
from measure.certificate_records import Curve
from measure.evidence import AttackEvidence
from measure.labelled_predictions import Bin
from measure.radius_sandwich import TextSandwich
from run_files.terminal import harmless
from text.estimates import IntervalEstimate

_INK, _GRID, _PAPER = "#1b1f24", "#d0d4d9", "#fefefe"
_STYLE: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), _INK),
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": ["sans-serif"],
}
_VARIABLES = {
    _INK: "currentColor",
    _GRID: "var(--line)",
    _PAPER: "var(--paper)",
    **{colour.lower(): f"var(--c{i})" for i, colour in enumerate(charts.COLOURS)},
}
"""Colours of the files, and their variables on the page, which also has a dark style."""
_FEW = 12
"""Most points of a line with marks."""
LIMIT = 400
"""Texts in the picture of the sandwich."""


@dataclass(frozen=True)
class Picture:
    """A picture: name of its file without suffix, the SVG, and a text for screen readers."""

    name: str
    svg: str
    alt: str

    def inline(self) -> str:
        """Return the SVG as a part of a page: with a title, in the colours of the page."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        # Its only rule would apply to the whole page.
        svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
        # Names are unique in a file, and must be unique in the page.
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", svg)
        # The style sheet of the page sets the colours, also for dark mode.
        for colour, variable in _VARIABLES.items():
            svg = re.sub(rf"{colour}\b", variable, svg, flags=re.IGNORECASE)
        head, end, rest = svg.partition(">")
        box = re.search(r'viewBox="[^"]*"', head)
        title = f'<title id="{self.name}-title">{escape(harmless(self.alt))}</title>'
        start = f'<svg role="img" aria-labelledby="{self.name}-title" {box.group() if box else ""}'
        return f'{start} xmlns:xlink="http://www.w3.org/1999/xlink"{end}{title}{rest}'


_drawing = partial(charts.drawing, None, style=_STYLE)


def _colour(number: int) -> str:
    return charts.COLOURS[number % len(charts.COLOURS)]


def _extra(names: Iterable[str]) -> float:
    """Return the inches that the longest name at a vertical axis needs more than usual ones."""
    return 0.1 * max(0, max(map(len, names)) - 12)


def reliability_picture(name: str, bins: Sequence[Bin], error: float) -> Picture:
    """Draw the accuracy over the confidence, and the number of texts in each bin."""
    with _drawing(size=(5.0, 4.2)) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        filled = [b for b in bins if b.accuracy is not None and b.confidence is not None]
        width, middle = bins[0].high - bins[0].low, [(b.low + b.high) / 2 for b in filled]
        style: dict[str, Any] = {"edgecolor": _PAPER, "linewidth": 0.8}
        # Bars up to the accuracy; hatched bars from there to the mean confidence.
        heights = [b.accuracy or 0.0 for b in filled]
        gaps = [(b.confidence or 0.0) - (b.accuracy or 0.0) for b in filled]
        upper.bar(middle, heights, width, color=charts.COLOURS[0], label="accuracy", **style)
        between: dict[str, Any] = {"hatch": "//", "facecolor": "none", "linewidth": 1.0}
        between |= {"edgecolor": charts.COLOURS[1], "label": "gap to the confidence"}
        upper.bar(middle, gaps, width, heights, **between)
        upper.plot([0, 1], [0, 1], color=_INK, linestyle="--", lw=1.0, label="perfect calibration")
        upper.set(ylim=(0, 1.02), xlim=(0, 1), ylabel="accuracy")
        # Outside: bars of unsure predictions reach every corner but the last.
        figure.legend(loc="outside upper center", ncols=3, fontsize=9)
        lower.bar(middle, [b.texts for b in filled], width, color=charts.COLOURS[0], **style)
        lower.set(xlabel="confidence of the prediction", ylabel="texts")
        lines = "; ".join(
            f"{b.low:.1f} to {b.high:.1f}: accuracy {b.accuracy:.2f} of {b.texts} texts"
            for b in filled
        )
        alt = f"Reliability diagram, calibration error {error:.3f}. Confidence {lines}."
        return Picture(name, charts.as_svg(figure), alt)


@dataclass(frozen=True)
class AccuracyCurve:
    """The certified accuracy of a run, and its accuracy under PGD."""

    name: str
    # Radii from 0 on, and the accuracy from each to the next.
    steps: tuple[Sequence[float], Sequence[float]] | None
    attacked: Sequence[tuple[float, IntervalEstimate]] = ()  # by the radius of PGD, 0 for none


def curve_picture(name: str, curves: Sequence[AccuracyCurve]) -> Picture:
    """Draw the certified accuracy over the radius, with the accuracy under PGD above it."""
    lines = []
    with _drawing(size=(6.4, 3.4)) as figure:
        axes = figure.add_subplot()
        for i, curve in enumerate(curves):
            marker = charts.MARKERS[i % len(charts.MARKERS)]
            style: dict[str, Any] = {"color": _colour(i), "label": charts.plain_label(curve.name)}
            if curve.steps is not None:
                xs, ys = curve.steps
                dashes = charts.DASHES[i % len(charts.DASHES)]
                axes.step(xs, ys, where="post", linestyle=dashes, **style)
                axes.fill_between(xs, ys, step="post", color=style["color"], alpha=0.1, linewidth=0)
                style.pop("label")  # one entry in the legend for both
                lines.append(
                    f"{curve.name}: certified {ys[0]:.3f} at radius 0, none from {xs[-1]:.3g}"
                )
            if curve.attacked:
                radii, estimates = zip(*curve.attacked, strict=True)
                heights = [e.value for e in estimates]
                # The lengths downwards and upwards.
                bars = [[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]]
                # Two points are no curve: a sweep of radii is.
                dots = ":" if len(radii) > 2 else "none"
                axes.errorbar(radii, heights, bars, ls=dots, capsize=3, marker=marker, **style)
                lines += [
                    f"{curve.name}: {e.value:.3f} under PGD at {r:g}" for r, e in curve.attacked
                ]
        axes.set(ylim=(0, 1.02), xlabel="radius, or eps of PGD (l2)", ylabel="accuracy")
        # A mark at radius 0 would be cut in half.
        axes.set_xlim(left=-0.02 * axes.get_xlim()[1])
        # A single run is named in the heading of the page.
        if len(curves) > 1:
            figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        return Picture(
            name, charts.as_svg(figure), f"Accuracy over the radius. {'; '.join(lines)}."
        )


class PanelLine(NamedTuple):
    """A line of a panel, with the number of its colour."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: int
    step: bool = False  # True if it keeps its height up to the next point


class Panel(NamedTuple):
    """A small picture next to others, with the label of its horizontal axis, if it has its own."""

    title: str
    lines: Sequence[PanelLine]
    x_label: str = ""


def panels_picture(
    name: str,
    panels: Sequence[Panel],
    *,
    alt: str,
    x_label: str = "",
    mark: float | None = None,
    top: float | None = None,
    width: float = 3.6,
) -> Picture:
    """Draw panels side by side, each line with its name at its right end.

    `mark` is a place on the horizontal axis; `top` the upper end of all heights; `width` that of a
    panel in inches.
    """
    # Margins are known: the layout of matplotlib would take most of the time of a report.
    room = 0.35 + 0.07 * max(len(line.name) for panel in panels for line in panel.lines)
    width = max(width, room + 1.5)
    whole, height = width * len(panels), 2.7
    with _drawing(size=(whole, height), layout="none") as figure:
        for i, panel in enumerate(panels):
            box = (i * width + 0.5) / whole, 0.55 / height, (width - 0.5 - room) / whole
            axes = figure.add_axes((*box, (height - 0.85) / height))
            for line in panel.lines:
                style: dict[str, Any] = {"color": _colour(line.colour)}
                style["drawstyle"] = "steps-post" if line.step else "default"
                # A line of few points has marks: a single one would be invisible.
                style["marker"] = "o" if len(line.xs) <= _FEW and not line.step else ""
                axes.plot(line.xs, line.ys, **style)
            if mark is not None:
                axes.axvline(mark, color=_INK, linestyle=charts.FINE, linewidth=1.0)
            axes.set_title(panel.title, fontsize=11, loc="left")
            axes.set_xlabel(panel.x_label or x_label)
            if top is not None:
                axes.set_ylim(0, top)
            ends = [(line.ys[-1], line.name, _colour(line.colour)) for line in panel.lines]
            axes.set_xlim(*axes.get_xlim())
            axes.set_ylim(*axes.get_ylim())
            charts.label_lines(axes, ends)
        return Picture(name, charts.as_svg(figure), alt)


def changes_picture(name: str, curves: Mapping[str, Curve]) -> Picture:
    """Draw the certified accuracy over the number of changed words, for each set."""
    # Any number of changes is one place behind the largest number.
    most = max(k for curve in curves.values() for k in (*curve.changes, 0) if k is not None)
    last = most + max(1, most // 8)
    with _drawing(size=(6.4, 3.2)) as figure:
        axes = figure.add_subplot()
        ends = []
        for i, (threat, curve) in enumerate(curves.items()):
            xs = [last if k is None else k for k in curve.changes]
            ys = [accuracy / 100 for accuracy in curve.accuracy]
            marker = charts.MARKERS[i % len(charts.MARKERS)]
            axes.plot(xs, ys, color=_colour(i), marker=marker, markersize=4)
            ends.append((ys[-1], f"{threat} {ys[-1]:.3f}", _colour(i)))
        ticks = sorted({0, *range(0, most + 1, max(1, most // 4))})
        axes.set_xticks([*ticks, last], [*map(str, ticks), "all"])
        axes.set(ylim=(0, 1.02), xlabel="changed words", ylabel="certified accuracy")
        axes.set_xlim(*axes.get_xlim())
        charts.label_lines(axes, ends)
        lines = "; ".join(
            f"{threat}: {curve.accuracy[0]:.1f} % without changes, {curve.accuracy[-1]:.1f} % for "
            f"{'any number' if curve.changes[-1] is None else curve.changes[-1]}"
            for threat, curve in curves.items()
        )
        alt = f"Certified accuracy over the number of changes. {lines}."
        return Picture(name, charts.as_svg(figure), alt)


def radii_picture(name: str, panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Picture:
    """Draw the certified radii of groups: median, the middle half, and the middle nine tenths.

    Each panel has the radii of its groups by their names.
    """
    rows = max(len(groups) for groups in panels.values())
    width = max(5.4, 3.4 * len(panels)) + _extra(name for own in panels.values() for name in own)
    with _drawing(size=(width, 1.3 + 0.3 * rows)) as figure:
        grid = figure.subplots(1, len(panels), sharex=True, squeeze=False)[0]
        lines = []
        for axes, (title, groups) in zip(grid, panels.items(), strict=True):
            colour, shares = charts.COLOURS[0], (0.05, 0.25, 0.5, 0.75, 0.95)
            for i, (group, radii) in enumerate(groups.items()):
                low, first, middle, third, high = np.quantile(radii, shares)
                axes.plot([low, high], [i, i], color=colour, linewidth=1.2)
                axes.plot([first, third], [i, i], color=colour, linewidth=5, alpha=0.5)
                axes.plot([middle], [i], color=colour, marker="o", linestyle="none")
                lines.append(f"{group}: median {middle:.3f} of {len(radii)} texts")
            names = [f"{charts.plain_label(g)} ({len(own):,})" for g, own in groups.items()]
            axes.set_yticks(range(len(groups)), names)
            axes.set_ylim(len(groups) - 0.5, -0.5)
            axes.set_xlim(left=0)
            axes.set_title(title, fontsize=11, loc="left")
            axes.set_xlabel("certified radius (l2)")
            axes.grid(visible=False, axis="y")
        return Picture(
            name, charts.as_svg(figure), f"Certified radii by group. {'; '.join(lines)}."
        )


def attacks_picture(name: str, attacks: Sequence[AttackEvidence]) -> Picture:
    """Draw the accuracy of the attacked texts, before and under each attack, with intervals."""
    width = 6.4 + _extra(attack.name for attack in attacks)
    with _drawing(size=(width, 1.2 + 0.42 * max(2, len(attacks)))) as figure:
        axes, rows, lines = figure.add_subplot(), [], []
        for attack in attacks:
            clean, attacked = attack.summary.clean_accuracy, attack.summary.accuracy
            marks = [(e.value, e.low, e.high) for e in (clean, attacked)]
            rows.append(charts.ForestRow(name=attack.name, marks=marks))
            lines.append(
                f"{attack.name}: {clean.value:.3f} before, {attacked.value:.3f} "
                f"({attacked.low:.3f} to {attacked.high:.3f}) under it"
            )
        charts.forest(axes, rows, ["the same texts without attack", "under the attack"])
        axes.set(xlim=(0, 1), xlabel="accuracy, 95 % interval")
        figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        alt = f"Accuracy under attacks. {'; '.join(lines)}."
        return Picture(name, charts.as_svg(figure), alt)


class RunPoint(NamedTuple):
    """Clean accuracy and a robust one of a run."""

    name: str
    clean: IntervalEstimate
    robust: IntervalEstimate


def trade_off_picture(name: str, panels: Mapping[str, Sequence[RunPoint]]) -> Picture:
    """Draw robust over clean accuracy of runs, a panel for each kind of robustness.

    A line joins the runs that no other run beats in both (Pareto's front).
    """
    with _drawing(size=(4.8 * len(panels), 4.0)) as figure:
        lines = []
        for axes, (title, runs) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            best = pareto(runs)
            front = [run.clean.value for run in best], [run.robust.value for run in best]
            axes.plot(*front, color=charts.COLOURS[0], alpha=0.5, zorder=1)
            points = [
                charts.Point(
                    name=run.name,
                    x=run.clean.value,
                    y=run.robust.value,
                    x_ends=(run.clean.low, run.clean.high),
                    y_ends=(run.robust.low, run.robust.high),
                )
                for run in runs
            ]
            charts.named_points(axes, points, strong={run.name for run in best})
            axes.set(xlabel="accuracy of clean texts", ylabel="accuracy")
            axes.set_title(title, fontsize=11, loc="left")
            lines += [
                f"{run.name}: clean {run.clean.value:.3f}, {title} {run.robust.value:.3f}"
                for run in runs
            ]
        return Picture(
            name, charts.as_svg(figure), f"Clean against robust accuracy. {'; '.join(lines)}."
        )


def pareto(runs: Sequence[RunPoint]) -> list[RunPoint]:
    """Return the runs that no other one beats in both accuracies, by clean accuracy."""
    front: list[RunPoint] = []
    for run in sorted(runs, key=lambda run: (-run.clean.value, -run.robust.value)):
        if not front or run.robust.value > front[-1].robust.value:
            front.append(run)
    return front[::-1]


def sandwich_picture(name: str, texts: Sequence[TextSandwich]) -> Picture:
    """Draw the certified radius of each text, and the nearest point that an attack has found."""
    ranked = sorted(texts, key=lambda text: (text.ball.radius, text.ball.sample_id))
    step = max(1, -(-len(ranked) // LIMIT))
    # Every contradiction is drawn.
    drawn = [text for i, text in enumerate(ranked) if i % step == 0 or text.broken]
    with _drawing(size=(6.4, 3.4)) as figure:
        axes = figure.add_subplot()
        xs, radii = list(range(len(drawn))), [text.ball.radius for text in drawn]
        area: dict[str, Any] = {"color": charts.COLOURS[2], "alpha": 0.45, "linewidth": 0}
        edge = [*xs, len(xs)], [*radii, radii[-1]]
        axes.fill_between(*edge, step="post", label="certified radius", **area)
        kinds = (
            ("changed by an attack", charts.COLOURS[1], ".", False),
            ("CONTRADICTION", charts.COLOURS[3], "X", True),
        )
        for label, colour, marker, broken in kinds:
            points = [
                (x + 0.5, text.above.distance)
                for x, text in enumerate(drawn)
                if text.above is not None and bool(text.broken) == broken
            ]
            if points:
                columns = tuple(zip(*points, strict=True))
                axes.plot(*columns, color=colour, marker=marker, linestyle="none", label=label)
        sampled = "" if step == 1 else f", 1 of {step}"
        axes.set(xlabel=f"texts by certified radius{sampled}", ylabel="l2 distance")
        axes.set(xlim=(0, len(xs)), ylim=(0, None))
        figure.legend(loc="outside upper center", ncols=3, fontsize=9)
        svg = charts.as_svg(figure)
    contradictions = sum(bool(text.broken) for text in texts)
    changed = sum(text.above is not None for text in texts)
    alt = (
        f"Certified radius of {len(texts)} texts, from {radii[0]:.3g} to {radii[-1]:.3g}; an "
        f"attack has changed {changed} of them, {contradictions} inside the certificate."
    )
    return Picture(name, svg, alt)
