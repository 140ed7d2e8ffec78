"""The pictures of a report: SVG for the page, in its colours, and for files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from app.report.clean_figures import Bin
from app.report.sandwich import TextSandwich
from measure import charts
from measure.certificate_records import Curve
from run_files.terminal import harmless
from text.estimates import IntervalEstimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@contextmanager
def _drawing(size: tuple[float, float]) -> "Iterator[Figure]":
    with charts.drawing(None, size=size, style=_STYLE) as figure:
        yield figure


def reliability_picture(name: str, bins: Sequence[Bin], error: float) -> Picture:
    """Draw the accuracy over the confidence, and the number of texts in each bin."""
    with _drawing((5.0, 4.2)) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        filled = [b for b in bins if b.accuracy is not None and b.confidence is not None]
        width, middle = bins[0].high - bins[0].low, [(b.low + b.high) / 2 for b in filled]
        style: dict[str, Any] = {"edgecolor": _PAPER, "linewidth": 0.8}
        # Bars up to the accuracy; hatched bars from there to the mean confidence.
        heights = [b.accuracy or 0.0 for b in filled]
        gaps = [(b.confidence or 0.0) - (b.accuracy or 0.0) for b in filled]
        upper.bar(middle, heights, width, color=charts.COLOURS[0], label="accuracy", **style)
        between: dict[str, Any] = {"hatch": "//", "facecolor": "none", "linewidth": 1.0}
        between |= {"edgecolor": charts.COLOURS[1], "label": "up or down to the mean confidence"}
        upper.bar(middle, gaps, width, heights, **between)
        upper.plot([0, 1], [0, 1], color=_INK, linestyle="--", lw=1.0, label="perfect calibration")
        upper.set(ylim=(0, 1.02), xlim=(0, 1), ylabel="accuracy")
        upper.legend(loc="upper left", fontsize=9)
        lower.bar(middle, [b.texts for b in filled], width, color=charts.COLOURS[0], **style)
        lower.set(xlabel="confidence of the prediction", ylabel="texts")
        svg = charts.as_svg(figure)
    lines = "; ".join(
        f"{b.low:.1f} to {b.high:.1f}: accuracy {b.accuracy:.2f} of {b.texts} texts" for b in filled
    )
    alt = f"Reliability diagram, calibration error {error:.3f}. Confidence {lines}."
    return Picture(name, svg, alt)


@dataclass(frozen=True)
class AccuracyCurve:
    """The certified accuracy of a run, and its accuracy under PGD.

    `steps` has radii from 0 on, and the accuracy from each to the next; `attacked` radii of PGD (0
    for none) and the accuracy under it, with its interval.
    """

    name: str
    steps: tuple[Sequence[float], Sequence[float]] | None
    attacked: Sequence[tuple[float, IntervalEstimate]] = ()


def curve_picture(name: str, curves: Sequence[AccuracyCurve]) -> Picture:
    """Draw the certified accuracy over the radius, with the accuracy under PGD above it."""
    several, lines = len(curves) > 1, []
    with _drawing((6.4, 3.8)) as figure:
        axes = figure.add_subplot()
        for i, curve in enumerate(curves):
            colour, run = charts.COLOURS[i % len(charts.COLOURS)], charts.plain_label(curve.name)
            if curve.steps is not None:
                xs, ys = curve.steps
                label = f"certified: {run}" if several else "certified"
                dashes = charts.DASHES[i % len(charts.DASHES)]
                axes.step(xs, ys, where="post", color=colour, label=label, linestyle=dashes)
                if not several:
                    axes.fill_between(xs, ys, step="post", color=colour, alpha=0.12, linewidth=0)
                lines.append(
                    f"{curve.name}: certified {ys[0]:.3f} at radius 0, none from {xs[-1]:.3g}"
                )
            if curve.attacked:
                label = (
                    f"under PGD: {run}" if several else "under PGD (eps), and without attack (0)"
                )
                style: dict[str, Any] = {
                    "color": colour,
                    "marker": charts.MARKERS[i % len(charts.MARKERS)],
                }
                radii, estimates = zip(*curve.attacked, strict=True)
                heights, ends = _error_bars(estimates)
                axes.errorbar(
                    radii, heights, ends, linestyle="none", capsize=3, label=label, **style
                )
                lines += [
                    f"{curve.name}: {e.value:.3f} under PGD at {r:g}" for r, e in curve.attacked
                ]
        axes.set(ylim=(0, 1.02), xlabel="radius, or eps of PGD (l2)", ylabel="accuracy")
        # A mark at radius 0 would be cut in half.
        axes.set_xlim(left=-0.02 * axes.get_xlim()[1])
        figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        svg = charts.as_svg(figure)
    return Picture(name, svg, f"Accuracy over the radius. {'; '.join(lines)}.")


def changes_picture(name: str, curves: Mapping[str, Curve]) -> Picture:
    """Draw the certified accuracy over the number of changed words, for each set."""
    # Any number of changes is one place behind the largest number.
    most = max(k for curve in curves.values() for k in (*curve.changes, 0) if k is not None)
    last = most + max(1, most // 8)
    with _drawing((6.4, 3.2 + 0.12 * len(curves))) as figure:
        axes = figure.add_subplot()
        for i, (threat, curve) in enumerate(curves.items()):
            xs = [last if k is None else k for k in curve.changes]
            ys = [accuracy / 100 for accuracy in curve.accuracy]
            style: dict[str, Any] = {"color": charts.COLOURS[i % len(charts.COLOURS)]}
            style |= {"marker": charts.MARKERS[i % len(charts.MARKERS)], "markersize": 4}
            style["linestyle"] = charts.DASHES[i // len(charts.COLOURS) % len(charts.DASHES)]
            axes.plot(xs, ys, label=charts.plain_label(threat), **style)
        ticks = sorted({0, *range(0, most + 1, max(1, most // 4))})
        axes.set_xticks([*ticks, last], [*map(str, ticks), "all"])
        axes.set(ylim=(0, 1.02), xlabel="changed words", ylabel="certified accuracy")
        figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        svg = charts.as_svg(figure)
    lines = "; ".join(
        f"{threat}: {curve.accuracy[0]:.1f} % without changes, {curve.accuracy[-1]:.1f} % for "
        f"{'any number' if curve.changes[-1] is None else curve.changes[-1]}"
        for threat, curve in curves.items()
    )
    return Picture(name, svg, f"Certified accuracy over the number of changes. {lines}.")


def _error_bars(estimates: Sequence[IntervalEstimate]) -> tuple[list[float], list[list[float]]]:
    """Return the values, and the lengths of their error bars downwards and upwards."""
    ends = [[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]]
    return [e.value for e in estimates], ends


def attacks_picture(name: str, runs: Mapping[str, Mapping[str, IntervalEstimate]]) -> Picture:
    """Draw the accuracy under each attack as bars with 95 % intervals."""
    groups = list(dict.fromkeys(attack for attacks in runs.values() for attack in attacks))
    with _drawing((6.4, 0.8 + 0.34 * max(3, len(groups) * (0.6 + 0.6 * len(runs))))) as figure:
        axes = figure.add_subplot()
        axes.grid(visible=False, axis="y")
        height = 0.8 / len(runs)
        for i, (run, attacks) in enumerate(runs.items()):
            rows = [j for j, attack in enumerate(groups) if attack in attacks]
            values, ends = _error_bars([attacks[groups[j]] for j in rows])
            style = {**charts.boxes(i), "edgecolor": _PAPER, "label": charts.plain_label(run)}
            style["error_kw"] = {**style["error_kw"], "ecolor": _INK}
            # The bars of an attack are centred at its tick.
            ys = [j + height * (i - (len(runs) - 1) / 2) for j in rows]
            axes.barh(ys, values, height, xerr=ends, **style)
        axes.set_yticks(range(len(groups)), [charts.plain_label(group) for group in groups])
        axes.invert_yaxis()  # the first attack on top
        axes.set(xlim=(0, 1), xlabel="accuracy, 95 % interval")
        # A single run is named in the heading of the page.
        if len(runs) > 1:
            figure.legend(loc="outside upper center", ncols=len(runs), fontsize=9)
        svg = charts.as_svg(figure)
    lines = "; ".join(
        f"{run}, {attack}: {e.value:.3f} ({e.low:.3f} to {e.high:.3f})"
        for run, attacks in runs.items()
        for attack, e in attacks.items()
    )
    return Picture(name, svg, f"Accuracy under attacks. {lines}.")


def sandwich_picture(name: str, texts: Sequence[TextSandwich]) -> Picture:
    """Draw the certified radius of each text, and the nearest point that an attack has found."""
    ranked = sorted(texts, key=lambda text: (text.ball.radius, text.ball.sample_id))
    step = max(1, -(-len(ranked) // LIMIT))
    # Every contradiction is drawn.
    drawn = [text for i, text in enumerate(ranked) if i % step == 0 or text.broken]
    with _drawing((6.4, 3.4)) as figure:
        axes = figure.add_subplot()
        xs, radii = list(range(len(drawn))), [text.ball.radius for text in drawn]
        axes.fill_between(
            [*xs, len(xs)],
            [*radii, radii[-1]],
            step="post",
            color=charts.COLOURS[2],
            alpha=0.45,
            linewidth=0,
            label="certified radius",
        )
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
