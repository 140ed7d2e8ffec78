"""Figures: one style for all, readable in a README and by colour-blind readers; PNG or SVG."""

import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.cli.terminal import harmless
from app.runs import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours that Okabe & Ito (2008) chose so that all kinds of colour vision tell them apart,
# without yellow, which is faint on white. Markers and dashes say the same in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++")
FINE = (0, (1, 2))
_LEVEL = 36
"""Characters of names that stand beside each other below an axis; more are written aslant."""
STYLE: dict[str, Any] = {
    "figure.figsize": (6.4, 4.0),  # inches; at 150 dots each, 960 x 600 pixels
    "figure.dpi": 150,
    "font.size": 11,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    # Names of runs and files stand in figures: a dollar sign is no formula.
    "text.parse_math": False,
}


@contextmanager
def drawing(
    path: Path | None,
    about: str | None = None,
    *,
    size: tuple[float, float] | None = None,
    layout: Literal["constrained", "compressed"] = "constrained",
    style: Mapping[str, Any] | None = None,
) -> "Iterator[Figure]":
    """Give a figure in `STYLE`, changed by `style`; write it to `path`, if any, after the block."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Not pyplot, which keeps every figure, and asks for a display.
    chosen: Any = {**STYLE, **(style or {})}
    with mpl.rc_context(chosen):
        figure = Figure(size, layout=layout)
        yield figure
        if path is not None:
            save(figure, path, about)


def points(i: int, name: str) -> dict[str, Any]:
    """The style of the line number `i`, with error bars."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        # After all colours the markers are moved on: 49 points can be told apart.
        "marker": MARKERS[(i + i // len(COLOURS)) % len(MARKERS)],
        "linestyle": DASHES[i % len(DASHES)],
        "capsize": 3,
        "elinewidth": 1.0,
        "label": shown(name),
    }


def boxes(i: int) -> dict[str, Any]:
    """The style of the bars number `i`."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "hatch": HATCHES[i % len(HATCHES)],
        "edgecolor": "white",
        "error_kw": {"elinewidth": 1.0, "ecolor": "#222222", "capsize": 3},
    }


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a figure.

    Attributes:
        name: name in the legend.
        x: places of the points, rising.
        mean: their heights; as many.
        std: lengths of the bars up and down; as many, or None for no bars.
        reference: heights to compare with, as a thin line of the same colour; as many, or None for
            no such line.
        low: lower ends of the bars, instead of `std`; as many.
        high: upper ends of the bars, together with `low`.
    """

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    std: Sequence[float] | None = None
    reference: Sequence[float] | None = None
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def error_bars(
    series: Sequence[Series],
    path: Path | None = None,
    *,
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    reference: str = "",
    ticks: Sequence[str] = (),
    logarithmic: Literal["", "x", "y", "xy"] = "",
    about: str | None = None,
) -> "Figure":
    """Lines with error bars over a common axis.

    Bars of several lines stand side by side, so that none hides another. Lines without bars, and
    those over a logarithmic axis, stay at their places.

    Args:
        series: at least one, each with at least one point.
        path: the PNG or SVG to write, if any; wholly or not at all.
        x_label: what lies on the x axis, with its unit if it has one.
        y_label: the same for the y axis.
        title: above the figure.
        reference: what the thin lines are, in the legend.
        ticks: names of the places 0, 1, ... on the x axis, instead of numbers.
        logarithmic: the axes with a logarithmic scale; the legend then stands beside the figure.
        about: see `save`.

    Returns:
        The figure, for TensorBoard.

    Raises:
        ValueError: nothing to draw, or lengths that do not agree.
        OSError: the file cannot be written.
    """
    _check(series)
    with drawing(path, about) as figure:
        axes = figure.add_subplot()
        step = 0.0 if "x" in logarithmic else _step(series)
        for i, one in enumerate(series):
            shift = step * (i - (len(series) - 1) / 2)
            reach = list(one.std) if one.std is not None else _reach(one.mean, one.low, one.high)
            places = [x + shift for x in one.x]
            axes.errorbar(places, list(one.mean), yerr=reach, **points(i, one.name))
            if one.reference is not None:
                colour = COLOURS[i % len(COLOURS)]
                axes.plot(list(one.x), list(one.reference), color=colour, linestyle=FINE, lw=1.2)
        if any(one.reference is not None for one in series):
            axes.plot([], [], color="#555555", linestyle=FINE, lw=1.2, label=shown(reference))
        axes.set(xlabel=shown(x_label), ylabel=shown(y_label), title=shown(title))
        if ticks:
            labels = [shown(name) for name in ticks]
            axes.set_xticks(range(len(labels)), labels)
            aslant(axes, labels)
        else:
            _whole_ticks(axes, series)
        for name in logarithmic:
            logarithmic_axis(axes, name)
        if len(series) > 1 or series[0].name:
            # Steep lines leave no corner free.
            legend_above(figure, [one.name for one in series]) if logarithmic else axes.legend()
    return figure


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A bar in each group of a figure.

    Attributes:
        name: name in the legend.
        height: height of the bar in each group.
        low: lower ends of the whiskers, none above its bar; None for no whiskers.
        high: upper ends of the whiskers, none below its bar.
        marks: sign above each bar; None for none.
    """

    name: str
    height: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    marks: Sequence[str] | None = None


def grouped_bars(
    groups: Sequence[str],
    series: Sequence[Bars],
    path: Path | None = None,
    *,
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    line: float | None = None,
) -> "Figure":
    """Bars side by side in groups, from zero up; the legend stands beside them.

    Args:
        groups: names of the groups, at least one.
        series: at least one, each with a bar for each group.
        path: the PNG or SVG to write, if any; wholly or not at all.
        x_label: what the groups are.
        y_label: what the heights are, with their unit if they have one.
        title: above the figure.
        line: a height that all are compared with, drawn across.

    Returns:
        The figure, for TensorBoard.

    Raises:
        ValueError: nothing to draw, or lengths that do not agree.
        OSError: the file cannot be written.
    """
    _check_bars(groups, series)
    with drawing(path) as figure:
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        axes.grid(visible=False, axis="x")
        width = 0.8 / len(series)
        for i, one in enumerate(series):
            shift = width * (i - (len(series) - 1) / 2)
            places, style = [group + shift for group in range(len(groups))], boxes(i)
            style |= {"yerr": _reach(one.height, one.low, one.high), "label": shown(one.name)}
            axes.bar(places, list(one.height), width, **style)
            _write_above(axes, places, one)
        if line is not None:
            axes.axhline(line, color="#555555", linewidth=1.0, linestyle="--")
        labels = [shown(group) for group in groups]
        axes.set_xticks(range(len(groups)), labels)
        aslant(axes, labels)
        axes.set(xlabel=shown(x_label), ylabel=shown(y_label), title=shown(title))
        figure.legend(loc="outside right upper")
    return figure


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a figure, with its interval in both directions.

    Attributes:
        name: in the legend.
        x: to the right.
        y: up.
        x_ends: where its interval begins and ends; None for none.
        y_ends: the same for the height.
    """

    name: str
    x: float
    y: float
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None


def scatter(
    every: Sequence[Point],
    path: Path | None = None,
    *,
    line: Sequence[tuple[float, float]] = (),
    x_label: str = "",
    y_label: str = "",
    title: str = "",
) -> "Figure":
    """Points with their intervals; the legend stands beside them.

    The axes reach as far beyond the outermost points as these lie apart; longer intervals are cut.

    Args:
        every: at least one.
        path: the PNG or SVG to write, if any; wholly or not at all.
        line: places that a thin line joins, behind the points.
        x_label: what lies on the x axis, with its unit if it has one.
        y_label: the same for the y axis.
        title: above the figure.

    Returns:
        The figure, for TensorBoard.

    Raises:
        ValueError: nothing to draw.
        OSError: the file cannot be written.
    """
    if not every:
        msg = "got no points to draw, expected at least one"
        raise ValueError(msg)
    # Each name has a line of the legend, and the title stands above the axes alone.
    with drawing(path, size=(8.4, max(4.0, 0.25 * len(every) + 0.3))) as figure:
        axes = figure.add_subplot()
        if line:
            across, up = zip(*line, strict=True)
            axes.plot(across, up, color="#888888", linewidth=1.0, zorder=0)
        for i, one in enumerate(every):
            errors = {
                f"{axis}err": [[max(0.0, at - ends[0])], [max(0.0, ends[1] - at)]]
                for axis, at, ends in (("x", one.x, one.x_ends), ("y", one.y, one.y_ends))
                if ends is not None
            }
            style = {**points(i, one.name), "linestyle": "none", **errors}
            axes.errorbar([one.x], [one.y], **style)
        _cut([one.x for one in every], axes.get_xlim, axes.set_xlim)
        _cut([one.y for one in every], axes.get_ylim, axes.set_ylim)
        axes.set(xlabel=shown(x_label), ylabel=shown(y_label), title=shown(title))
        figure.legend(loc="outside right upper")
    return figure


def _cut(
    places: Sequence[float],
    limits: Callable[[], tuple[float, float]],
    to: Callable[[float, float], object],
) -> None:
    """Keep an axis within as much beyond the outermost places as they lie apart."""
    low, high = min(places), max(places)
    begin, end = limits()
    if low < high:
        to(max(begin, 2 * low - high), min(end, 2 * high - low))


def save(figure: "Figure", path: Path, about: str | None = None) -> None:
    """Write a figure as PNG or SVG, wholly or not at all; the same figure gives the same bytes.

    Args:
        figure: the figure.
        path: the file; an SVG if its name ends with `.svg`.
        about: what is written into the file as its description.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic.replacing(path) as stream:
        _write(figure, stream, "svg" if path.suffix == ".svg" else "png", about)


def as_svg(figure: "Figure") -> str:
    """Return a figure as SVG whose words are text; the same figure gives the same text."""
    import matplotlib as mpl

    stream = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        _write(figure, stream, "svg", None)
    return stream.getvalue().decode()


def _write(
    figure: "Figure", stream: IO[bytes], kind: Literal["svg", "png"], about: str | None
) -> None:
    import matplotlib as mpl

    # Otherwise files name the date and the version of the library, and SVG has random names inside.
    metadata = dict.fromkeys({"svg": ("Date", "Creator"), "png": ("Software",)}[kind])
    described = {} if about is None else {"Description": about}
    with _any_sign(), mpl.rc_context({"svg.hashsalt": "steadfast"}):
        figure.savefig(stream, format=kind, metadata={**metadata, **described})


def pixels(figure: "Figure") -> NDArray[np.uint8]:
    """`[height, width, 4]` red, green, blue and opacity, as TensorBoard takes them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    with _any_sign():
        canvas.draw()  # type: ignore[no-untyped-call] # theirs
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)  # type: ignore[no-untyped-call] # theirs


@contextmanager
def _any_sign() -> Iterator[None]:
    """A sign that the font lacks is drawn as a box, which is warning enough."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        yield


def _check(series: Sequence[Series]) -> None:
    if not series:
        msg = "got no series to draw, expected at least one"
        raise ValueError(msg)
    for one in series:
        others = (one.std, one.reference, one.low, one.high)
        given = [one.mean, *(other for other in others if other is not None)]
        if not one.x or any(len(other) != len(one.x) for other in given):
            lengths = ", ".join(str(len(other)) for other in given)
            msg = (
                f"got series {one.name!r} with {len(one.x)} x and {lengths} values for them, "
                "expected as many of each, and at least one"
            )
            raise ValueError(msg)


def _check_bars(groups: Sequence[str], series: Sequence[Bars]) -> None:
    if not groups or not series:
        msg = (
            f"got {len(groups)} groups and {len(series)} bars for each, expected at least one of "
            "both"
        )
        raise ValueError(msg)
    for one in series:
        given = [one.height, *(other for other in (one.low, one.high) if other is not None)]
        marks = one.height if one.marks is None else one.marks
        if any(len(other) != len(groups) for other in [*given, marks]) or len(given) == 2:
            lengths = ", ".join(str(len(other)) for other in given)
            msg = (
                f"got bars {one.name!r} with {lengths} values for {len(groups)} groups, expected "
                "one for each, and both low and high or neither"
            )
            raise ValueError(msg)


def _write_above(axes: "Axes", places: Sequence[float], one: Bars) -> None:
    """Write the marks of bars above their whiskers."""
    ends = one.height if one.high is None else one.high
    for place, end, mark in zip(places, ends, one.marks or (), strict=False):
        if mark and math.isfinite(end):  # not of a bar that is not there
            text: dict[str, Any] = {"ha": "center", "va": "bottom", "xytext": (0, 2)}
            axes.annotate(mark, (place, end), textcoords="offset points", **text)


def _reach(
    middle: Sequence[float], low: Sequence[float] | None, high: Sequence[float] | None
) -> list[list[float]] | None:
    """Lengths of error bars below and above the middle of each."""
    if low is None or high is None:
        return None
    return [
        [max(0.0, at - end) for at, end in zip(middle, low, strict=True)],
        [max(0.0, end - at) for at, end in zip(middle, high, strict=True)],
    ]


def shown(name: str) -> str:
    """A name that is drawn as it is: matplotlib leaves labels out that begin with _."""
    text = harmless(name)
    return f"\u200b{text}" if text.startswith("_") else text


def aslant(axes: "Axes", labels: Sequence[str]) -> None:
    """Write the names below the axis aslant where they have no room side by side."""
    if sum(map(len, labels)) > _LEVEL:
        axes.tick_params(axis="x", labelrotation=40)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def _step(series: Sequence[Series]) -> float:
    """From one line's bars to the next one's, so that those of all stay near their point."""
    if sum(one.std is not None or one.low is not None for one in series) < 2:
        return 0.0
    every = sorted({x for one in series for x in one.x})
    gap = min((b - a for a, b in pairwise(every)), default=1.0)
    return gap * min(0.12, 0.5 / len(series))


def legend_above(figure: "Figure", names: Sequence[str]) -> None:
    """Put the legend above the axes, in two columns if the names are short.

    Args:
        figure: with labelled lines.
        names: of the lines.
    """
    short = max(map(len, names), default=0) <= _LEVEL - 10
    figure.legend(loc="outside upper center", ncols=2 if short else 1)


def logarithmic_axis(axes: "Axes", name: str) -> None:
    """Give an axis a logarithmic scale with plain numbers, as formulas are not read.

    Args:
        axes: with everything that is drawn.
        name: `x` or `y`.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis = axes.xaxis if name == "x" else axes.yaxis
    axes.set(**{f"{name}scale": "log"})
    low, high = sorted(axis.get_view_interval())
    few = high < 100 * low
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7) if few else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def _whole_ticks(axes: "Axes", series: Sequence[Series]) -> None:
    """Use whole numbers on an axis of whole numbers: there is no layer 2.5."""
    every = sorted({x for one in series for x in one.x})
    if not all(float(x).is_integer() for x in every):
        return
    if len(every) <= 12:
        axes.set_xticks(every)
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
