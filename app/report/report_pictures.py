"""The pictures of a report: SVG for the page, in its colours, and for files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from app.cli.terminal import harmless
from app.figures import charts
from app.report.clean_figures import Bin
from app.report.sandwich import Layers
from attacks.summary import IntervalEstimate

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
"""Colours of the files, and what they are on the page, which also has a dark dress."""
LIMIT = 400
"""Texts in the picture of the sandwich."""


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        name: of its file, without suffix.
        svg: content of the file.
        alt: what it shows, for those who cannot see it.
    """

    name: str
    svg: str
    alt: str

    def inline(self) -> str:
        """Returns the SVG as a part of a page: with a title, in the colours of the page."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        # Its only rule would hold for the whole page.
        svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
        # Names are unique in a file, and have to be in the page.
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", svg)
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
    """Draws the accuracy over the confidence, and how many texts lie in each bin.

    Args:
        name: of the file.
        bins: with at least one text.
        error: expected calibration error.
    """
    with _drawing((5.0, 4.2)) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        known = [one for one in bins if one.accuracy is not None and one.confidence is not None]
        width, middle = bins[0].high - bins[0].low, [(one.low + one.high) / 2 for one in known]
        style: dict[str, Any] = {"edgecolor": _PAPER, "linewidth": 0.8}
        heights = [one.accuracy or 0.0 for one in known]
        gaps = [(one.confidence or 0.0) - (one.accuracy or 0.0) for one in known]
        upper.bar(middle, heights, width, color=charts.COLOURS[0], label="accuracy", **style)
        between: dict[str, Any] = {"hatch": "//", "facecolor": "none", "linewidth": 1.0}
        between |= {"edgecolor": charts.COLOURS[1], "label": "up or down to the mean confidence"}
        upper.bar(middle, gaps, width, heights, **between)
        upper.plot([0, 1], [0, 1], color=_INK, linestyle="--", lw=1.0, label="perfect calibration")
        upper.set(ylim=(0, 1.02), xlim=(0, 1), ylabel="accuracy")
        upper.legend(loc="upper left", fontsize=9)
        lower.bar(middle, [one.texts for one in known], width, color=charts.COLOURS[0], **style)
        lower.set(xlabel="confidence of the prediction", ylabel="texts")
        svg = charts.as_svg(figure)
    told = "; ".join(
        f"{one.low:.1f} to {one.high:.1f}: accuracy {one.accuracy:.2f} of {one.texts} texts"
        for one in known
    )
    alt = f"Reliability diagram, calibration error {error:.3f}. Confidence {told}."
    return Picture(name, svg, alt)


@dataclass(frozen=True)
class Curve:
    """The certified accuracy of a run, and its accuracy under PGD.

    Attributes:
        name: of the run.
        steps: radii from 0 on, and the accuracy from each to the next; None without certificates.
        attacked: radii of PGD (0 for none) and the accuracy under it, with its interval.
    """

    name: str
    steps: tuple[Sequence[float], Sequence[float]] | None
    attacked: Sequence[tuple[float, IntervalEstimate]] = ()


def curve_picture(name: str, curves: Sequence[Curve]) -> Picture:
    """Draws the certified accuracy over the radius, with the accuracy under PGD above it.

    Args:
        name: of the file.
        curves: at least one, of which at least one has something to draw.
    """
    several, told = len(curves) > 1, []
    with _drawing((6.4, 3.8)) as figure:
        axes = figure.add_subplot()
        for i, one in enumerate(curves):
            colour, of = charts.COLOURS[i % len(charts.COLOURS)], charts.shown(one.name)
            if one.steps is not None:
                xs, ys = one.steps
                label = f"certified: {of}" if several else "certified"
                dashes = charts.DASHES[i % len(charts.DASHES)]
                axes.step(xs, ys, where="post", color=colour, label=label, linestyle=dashes)
                if not several:
                    axes.fill_between(xs, ys, step="post", color=colour, alpha=0.12, linewidth=0)
                told.append(
                    f"{one.name}: certified {ys[0]:.3f} at radius 0, none from {xs[-1]:.3g}"
                )
            if one.attacked:
                label = f"under PGD: {of}" if several else "under PGD (eps), and without attack (0)"
                style: dict[str, Any] = {
                    "color": colour,
                    "marker": charts.MARKERS[i % len(charts.MARKERS)],
                }
                places, made = zip(*one.attacked, strict=True)
                ends = [[e.value - e.low for e in made], [e.high - e.value for e in made]]
                heights = [e.value for e in made]
                axes.errorbar(
                    places, heights, ends, linestyle="none", capsize=3, label=label, **style
                )
                told += [f"{one.name}: {e.value:.3f} under PGD at {r:g}" for r, e in one.attacked]
        axes.set(ylim=(0, 1.02), xlabel="radius, or eps of PGD (l2)", ylabel="accuracy")
        axes.set_xlim(left=-0.02 * axes.get_xlim()[1])
        figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        svg = charts.as_svg(figure)
    return Picture(name, svg, f"Accuracy over the radius. {'; '.join(told)}.")


def attacks_picture(name: str, runs: Mapping[str, Mapping[str, IntervalEstimate]]) -> Picture:
    """Draws the accuracy under each attack as bars with 95 % intervals.

    Args:
        name: of the file.
        runs: by run and attack; at least one.
    """
    groups = list(dict.fromkeys(attack for found in runs.values() for attack in found))
    with _drawing((6.4, 0.8 + 0.34 * max(3, len(groups) * (0.6 + 0.6 * len(runs))))) as figure:
        axes = figure.add_subplot()
        axes.grid(visible=False, axis="y")
        height = 0.8 / len(runs)
        for i, (run, found) in enumerate(runs.items()):
            own = [j for j, attack in enumerate(groups) if attack in found]
            made = [found[groups[j]] for j in own]
            ends = [[e.value - e.low for e in made], [e.high - e.value for e in made]]
            style = {**charts.boxes(i), "edgecolor": _PAPER, "label": charts.shown(run)}
            style["error_kw"] = {**style["error_kw"], "ecolor": _INK}
            places = [j + height * (i - (len(runs) - 1) / 2) for j in own]
            axes.barh(places, [e.value for e in made], height, xerr=ends, **style)
        axes.set_yticks(range(len(groups)), [charts.shown(group) for group in groups])
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="accuracy, 95 % interval")
        if len(runs) > 1:
            figure.legend(loc="outside upper center", ncols=len(runs), fontsize=9)
        svg = charts.as_svg(figure)
    told = "; ".join(
        f"{run}, {attack}: {one.value:.3f} ({one.low:.3f} to {one.high:.3f})"
        for run, found in runs.items()
        for attack, one in found.items()
    )
    return Picture(name, svg, f"Accuracy under attacks. {told}.")


def sandwich_picture(name: str, layers: Sequence[Layers]) -> Picture:
    """Draws the certified radius of each text, and the nearest point that an attack has found.

    Args:
        name: of the file.
        layers: of the texts, at least one.
    """
    ranked = sorted(layers, key=lambda one: (one.ball.radius, one.ball.sample_id))
    step = max(1, -(-len(ranked) // LIMIT))
    chosen = [one for i, one in enumerate(ranked) if i % step == 0 or one.broken]
    with _drawing((6.4, 3.4)) as figure:
        axes = figure.add_subplot()
        xs, radii = list(range(len(chosen))), [one.ball.radius for one in chosen]
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
            ("changed by an attack", charts.COLOURS[1], ".", [not one.broken for one in chosen]),
            ("CONTRADICTION", charts.COLOURS[3], "X", [bool(one.broken) for one in chosen]),
        )
        for label, colour, marker, wanted in kinds:
            points = [
                (x + 0.5, one.above.distance)
                for x, one, yes in zip(xs, chosen, wanted, strict=True)
                if yes and one.above is not None
            ]
            if points:
                places = tuple(zip(*points, strict=True))
                axes.plot(*places, color=colour, marker=marker, linestyle="none", label=label)
        every = "" if step == 1 else f", 1 of {step}"
        axes.set(xlabel=f"texts by certified radius{every}", ylabel="l2 distance")
        axes.set(xlim=(0, len(xs)), ylim=(0, None))
        figure.legend(loc="outside upper center", ncols=3, fontsize=9)
        svg = charts.as_svg(figure)
    broken = sum(bool(one.broken) for one in layers)
    changed = sum(one.above is not None for one in layers)
    alt = (
        f"Certified radius of {len(layers)} texts, from {radii[0]:.3g} to {radii[-1]:.3g}; an "
        f"attack has changed {changed} of them, {broken} inside the certificate."
    )
    return Picture(name, svg, alt)
