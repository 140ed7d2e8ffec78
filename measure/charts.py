"""Figures in one style, readable in a README and by colour-blind readers; PNG or SVG."""

import io
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from run_files import atomic
from run_files.terminal import harmless

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito (2008): distinct for all kinds of colour vision; without their yellow, which is faint
# on white. Markers, dashes and hatches distinguish the same things in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++")
FINE = (0, (1, 2))
LABEL = 9
"""Size of names at lines and points, in points."""
CROWD = 10
"""Points with names in one picture; more are rows."""
_LEVEL = 36
"""Most characters of horizontal names below an axis; more are written aslant."""
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
    # Figures contain names of runs and files: a dollar sign does not begin a formula.
    "text.parse_math": False,
}


@contextmanager
def drawing(
    path: Path | None,
    description: str | None = None,
    *,
    size: tuple[float, float] | None = None,
    layout: Literal["constrained", "compressed", "none"] = "constrained",
    style: Mapping[str, Any] | None = None,
) -> "Iterator[Figure]":
    """Yield a figure in `STYLE`, changed by `style`; write it to `path`, if any, at the end."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Not pyplot: it keeps every figure in memory, and needs a display.
    parameters: Any = {**STYLE, **(style or {})}
    with mpl.rc_context(parameters):
        figure = Figure(size, layout=None if layout == "none" else layout)
        yield figure
        if path is not None:
            save(figure, path, description)


def points(i: int, name: str) -> dict[str, Any]:
    """Return the style of the line number `i`, with error bars."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        # The markers shift after each round of colours: 49 combinations, not 7.
        "marker": MARKERS[(i + i // len(COLOURS)) % len(MARKERS)],
        "linestyle": DASHES[i % len(DASHES)],
        "capsize": 3,
        "elinewidth": 1.0,
        "label": plain_label(name),
    }


def boxes(i: int) -> dict[str, Any]:
    """Return the style of the bars number `i`."""
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
        x: positions of the points, in rising order.
        mean: their heights.
        std: lengths of the error bars up and down, if any.
        reference: heights to compare with, as a thin line of the same colour.
        low: lower ends of the error bars, instead of `std`.
        high: upper ends of the error bars, together with `low`.
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
    description: str | None = None,
) -> "Figure":
    """Draw lines with error bars over a common axis, into `path` if it is given.

    `reference` is the name of the thin lines in the legend; `ticks` are names of the positions
    0, 1, ... instead of numbers; `description` is written into the file.

    Raises:
        ValueError: no series, or lengths that do not agree.
        OSError: the file cannot be written.
    """
    from matplotlib.ticker import MaxNLocator

    _check(series)
    with drawing(path, description) as figure:
        axes = figure.add_subplot()
        xs = sorted({x for curve in series for x in curve.x})
        _draw_curves(axes, series, 0.0 if "x" in logarithmic else _shift(series, xs))
        compared = any(curve.reference is not None for curve in series)
        if compared:
            axes.plot([], [], color="#555555", linestyle=FINE, lw=1.2, label=plain_label(reference))
        axes.set(xlabel=plain_label(x_label), ylabel=plain_label(y_label), title=plain_label(title))
        if ticks:
            _name_ticks(axes, ticks)
        elif all(float(x).is_integer() for x in xs):  # there is no layer 2.5
            if len(xs) <= 12:
                axes.set_xticks(xs)
            else:
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        for name in logarithmic:
            logarithmic_axis(axes, name)
        if reference and compared:
            axes.legend()
        elif len(series) > 1 or series[0].name:
            # Names at the lines: a reader compares no colours with a legend.
            axes.set_xlim(*axes.get_xlim())
            axes.set_ylim(*axes.get_ylim())
            label_lines(
                axes,
                [(c.mean[-1], c.name, COLOURS[i % len(COLOURS)]) for i, c in enumerate(series)],
            )
    return figure


def _shift(series: Sequence[Series], xs: Sequence[float]) -> float:
    """Return the shift from line to line, so that no error bars hide those of another.

    All of them together take at most half of a gap between positions `xs`.
    """
    with_bars = [curve for curve in series if curve.std is not None or curve.low is not None]
    if len(with_bars) < 2:
        return 0.0
    gap = min((b - a for a, b in pairwise(xs)), default=1.0)
    return gap * min(0.12, 0.5 / len(series))


def _draw_curves(axes: "Axes", series: Sequence[Series], step: float) -> None:
    """Draw lines, their error bars and their references, each a step to the right of the last."""
    for i, curve in enumerate(series):
        shift = step * (i - (len(series) - 1) / 2)
        positions = [x + shift for x in curve.x]
        errors: Any = _errors(curve.mean, curve.low, curve.high)
        errors = errors if curve.std is None else list(curve.std)
        axes.errorbar(positions, list(curve.mean), yerr=errors, **points(i, curve.name))
        if curve.reference is not None:
            thin: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "linestyle": FINE}
            axes.plot(list(curve.x), list(curve.reference), lw=1.2, **thin)


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A bar in each group of a figure.

    Attributes:
        name: name in the legend.
        height: height of the bar in each group.
        low: lower ends of the whiskers, none above its bar; None: no whiskers.
        high: upper ends of the whiskers, none below its bar.
        marks: sign above each bar; None: no signs.
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
    """Draw bars side by side in groups, from zero up, into `path` if it is given.

    `line` is the height of a horizontal line to compare with.

    Raises:
        ValueError: no bars, or lengths that do not agree.
        OSError: the file cannot be written.
    """
    _check(series, len(groups))
    with drawing(path) as figure:
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        axes.grid(visible=False, axis="x")
        width = 0.8 / len(series)
        for i, bars in enumerate(series):
            shift = width * (i - (len(series) - 1) / 2)
            positions, style = [group + shift for group in range(len(groups))], boxes(i)
            style |= {
                "yerr": _errors(bars.height, bars.low, bars.high),
                "label": plain_label(bars.name),
            }
            axes.bar(positions, list(bars.height), width, **style)
            ends = bars.height if bars.high is None else bars.high
            for position, end, mark in zip(positions, ends, bars.marks or (), strict=False):
                if mark and math.isfinite(end):  # NaN: there is no bar here
                    text: dict[str, Any] = {"ha": "center", "va": "bottom", "xytext": (0, 2)}
                    axes.annotate(mark, (position, end), textcoords="offset points", **text)
        if line is not None:
            axes.axhline(line, color="#555555", linewidth=1.0, linestyle="--")
        _name_ticks(axes, groups)
        axes.set(xlabel=plain_label(x_label), ylabel=plain_label(y_label), title=plain_label(title))
        figure.legend(loc="outside right upper")
    return figure


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a figure, with its interval in both directions.

    Attributes:
        name: in the legend.
        x: to the right.
        y: up.
        x_ends: begin and end of its interval; None: no interval.
        y_ends: the same for the height.
    """

    name: str
    x: float
    y: float
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None


def scatter(
    samples: Sequence[Point],
    path: Path | None = None,
    *,
    line: Sequence[tuple[float, float]] = (),
    x_label: str = "",
    y_label: str = "",
    title: str = "",
) -> "Figure":
    """Draw points with their intervals and names, into `path` if it is given.

    More than `CROWD` points are rows instead, with a panel for each of the two figures: their names
    and intervals would cover each other. The axes extend beyond the outermost points by at most the
    distance of these; longer intervals are cut. `line` has the corners of a thin line behind the
    points; among rows, these points have another colour.

    Raises:
        ValueError: no points.
        OSError: the file cannot be written.
    """
    if not samples:
        msg = "got no points to draw, expected at least one"
        raise ValueError(msg)
    rows = len(samples) > CROWD
    with drawing(path, size=(8.4, 0.27 * len(samples) + 1.0) if rows else None) as figure:
        if rows:
            _panels(figure, samples, line, (x_label, y_label))
            figure.suptitle(plain_label(title), fontsize=12)
            return figure
        axes = figure.add_subplot()
        if line:
            axes.plot(*zip(*line, strict=True), color="#888888", linewidth=1.0, zorder=0)
        named_points(axes, samples, strong={sample.name for sample in samples})
        _cut([sample.x for sample in samples], axes.get_xlim, axes.set_xlim)
        _cut([sample.y for sample in samples], axes.get_ylim, axes.set_ylim)
        axes.set(xlabel=plain_label(x_label), ylabel=plain_label(y_label), title=plain_label(title))
    return figure


def _panels(
    figure: "Figure",
    samples: Sequence[Point],
    line: Sequence[tuple[float, float]],
    labels: tuple[str, str],
) -> None:
    """Draw a row for each point, the highest one on top, and a panel for each of its figures."""
    ranked = sorted(samples, key=lambda sample: -sample.y)
    numbers = [
        ([s.x for s in ranked], [s.x_ends for s in ranked]),
        ([s.y for s in ranked], [s.y_ends for s in ranked]),
    ]
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (values, ends), label in zip(panels, numbers, labels, strict=True):
        for row, (sample, value, pair) in enumerate(zip(ranked, values, ends, strict=True)):
            # The points of the line are those that others are compared with.
            colour = COLOURS[1] if (sample.x, sample.y) in line else COLOURS[0]
            bars = None if pair is None else _errors([value], pair[:1], pair[1:])
            style: dict[str, Any] = {"color": colour, "marker": "o", "linestyle": "none"}
            axes.errorbar([value], [row], xerr=bars, **style)
        _cut(values, axes.get_xlim, axes.set_xlim)
        axes.set_xlabel(plain_label(label))
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(ranked)), [plain_label(sample.name) for sample in ranked])
    panels[0].set_ylim(len(ranked) - 0.5, -0.5)


def named_points(axes: "Axes", samples: Sequence[Point], strong: Collection[str]) -> None:
    """Draw points with intervals and names next to them; those named in `strong` in colour."""
    for sample in samples:
        colour = COLOURS[0] if sample.name in strong else "#7f7f7f"
        ends = {"xerr": sample.x_ends, "yerr": sample.y_ends}
        at = {"xerr": sample.x, "yerr": sample.y}
        bars: Any = {
            name: _errors([at[name]], pair[:1], pair[1:]) for name, pair in ends.items() if pair
        }
        style: dict[str, Any] = {"color": colour, "marker": "o", "linestyle": "none"}
        axes.errorbar([sample.x], [sample.y], **bars, **style, elinewidth=0.8, alpha=0.9)
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    size = axes.get_window_extent()
    gap = 1.25 * LABEL * axes.figure.dpi / 72 / size.height
    # Names that would overlap move up or down: those of the same side are in one column.
    for to_right in (True, False):
        side = [s for s in samples if ((s.x - left) < 0.6 * (right - left)) == to_right]
        side.sort(key=lambda sample: sample.y)
        shares = spread([(sample.y - low) / (high - low) for sample in side], gap)
        for share, sample in zip(shares, side, strict=True):
            # In points, from the point to its name.
            up = (share - (sample.y - low) / (high - low)) * size.height * 72 / axes.figure.dpi
            axes.annotate(
                plain_label(sample.name),
                (sample.x, sample.y),
                (8 if to_right else -8, 7 + up),
                textcoords="offset points",
                ha="left" if to_right else "right",
                va="center",
                fontsize=LABEL,
                annotation_clip=False,
            )


def label_lines(axes: "Axes", ends: Sequence[tuple[float, str, str]]) -> None:
    """Write names at the right end of lines, without a legend; the axes have their final limits.

    Each of the `ends` is the height of the last point, the name and the colour of a line.
    """
    # On a logarithmic axis, too.
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = [(to_axes.transform((axes.get_xlim()[1], height))[1], *rest) for height, *rest in ends]
    scale = axes.transAxes.transform((0, 1))[1] - axes.transAxes.transform((0, 0))[1]
    # Lines of text of the same size need 1.2 of it.
    gap = 1.2 * LABEL * axes.figure.dpi / 72 / scale
    ordered = sorted((at, name, colour) for at, name, colour in ends if math.isfinite(at))
    shares = spread([at for at, _, _ in ordered], gap)
    for share, (at, name, colour) in zip(shares, ordered, strict=True):
        axes.plot([1, 1.03], [at, share], transform=axes.transAxes, color=colour, lw=0.8,
                  clip_on=False, marker="")  # fmt: skip
        style: dict[str, Any] = {"va": "center", "fontsize": LABEL, "color": colour}
        axes.text(1.04, share, plain_label(name), transform=axes.transAxes, **style)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move rising heights apart until neighbours differ by `gap`, around their middle."""
    moved = list(heights)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    if not moved:
        return moved
    # Centred on the middle of where they were, but inside of 0 to 1 as far as there is room.
    shift = (sum(heights) - sum(moved)) / len(moved)
    shift = max(min(shift, 1 - moved[-1]), -moved[0]) if moved[-1] - moved[0] <= 1 else shift
    return [height + shift for height in moved]


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """A row of a forest plot: value, low and high end of each mark; None where there is none."""

    name: str
    marks: Sequence[tuple[float, float, float] | None]


def forest(axes: "Axes", rows: Sequence[ForestRow], names: Sequence[str]) -> None:
    """Draw rows of marks with their intervals, the first row on top; a name for each mark."""
    step = 0.5 / max(1, len(names))
    for i, name in enumerate(names):
        drawn = [(j, row.marks[i]) for j, row in enumerate(rows)]
        cells = [(j + step * (i - (len(names) - 1) / 2), mark) for j, mark in drawn if mark]
        if not cells:
            continue
        values = [mark[0] for _, mark in cells]
        ends = _errors(values, [mark[1] for _, mark in cells], [mark[2] for _, mark in cells])
        style = {**points(i, name), "linestyle": "none", "capsize": 0, "elinewidth": 2.0}
        axes.errorbar(values, [height for height, _ in cells], xerr=ends, **style)
    axes.set_yticks(range(len(rows)), [plain_label(row.name) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)  # the first row on top
    axes.grid(visible=False, axis="y")


def _cut(
    positions: Sequence[float],
    get_limits: Callable[[], tuple[float, float]],
    set_limits: Callable[[float, float], object],
) -> None:
    """Limit an axis to three times the range of the positions."""
    low, high = min(positions), max(positions)
    begin, end = get_limits()
    if low < high:
        set_limits(max(begin, 2 * low - high), min(end, 2 * high - low))


def save(figure: "Figure", path: Path, description: str | None = None) -> None:
    """Write a figure as PNG, or as `.svg`, atomically; the same figure gives the same bytes.

    `description` is written into the file.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic.replacing(path) as stream:
        _write(figure, stream, "svg" if path.suffix == ".svg" else "png", description)
    # To arrange the parts takes half of a drawing; TensorBoard's copy has them where they are.
    figure.set_layout_engine("none")


def as_svg(figure: "Figure") -> str:
    """Return a figure as SVG with text as text; the same figure gives the same string."""
    import matplotlib as mpl

    stream = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        _write(figure, stream, "svg", None)
    return stream.getvalue().decode()


def _write(
    figure: "Figure", stream: IO[bytes], kind: Literal["svg", "png"], description: str | None
) -> None:
    import matplotlib as mpl

    # Without date and version of the library, and with a fixed salt: SVG has random names inside.
    metadata: dict[str, str | None] = dict.fromkeys(
        {"svg": ("Date", "Creator"), "png": ("Software",)}[kind]
    )
    if description is not None:
        metadata["Description"] = description
    with _allow_missing_glyphs(), mpl.rc_context({"svg.hashsalt": "steadfast"}):
        figure.savefig(stream, format=kind, metadata=metadata)


def pixels(figure: "Figure") -> NDArray[np.uint8]:
    """Return the pixels `[height, width, 4]`: red, green, blue and opacity, for TensorBoard."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    with _allow_missing_glyphs():
        canvas.draw()  # type: ignore[no-untyped-call] # matplotlib has no type here
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)  # type: ignore[no-untyped-call] # nor here


@contextmanager
def _allow_missing_glyphs() -> Iterator[None]:
    """Do not warn of signs that the font lacks: matplotlib draws a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        yield


def _check(series: Sequence[Series] | Sequence[Bars], count: int | None = None) -> None:
    """Raise ValueError unless all lists of a series have equal lengths, or `count`."""
    if not series or count == 0:
        msg = f"got {len(series)} series to draw{'' if count is None else f' in {count} groups'}, "
        msg += "expected at least one"
        raise ValueError(msg)
    for curve in series:
        lists = {name: values for name, values in vars(curve).items() if values is not None}
        lengths = {name: len(values) for name, values in lists.items() if name != "name"}
        expected = lengths.get("x", count)
        equal = expected and {expected} == set(lengths.values())
        if not equal or ("low" in lists) != ("high" in lists):
            numbers = ", ".join(f"{length} {name}" for name, length in lengths.items())
            msg = (
                f"got {curve.name!r} with {numbers}, expected {expected or 'at least 1'} of each, "
                "and both low and high or neither"
            )
            raise ValueError(msg)


def _errors(
    middle: Sequence[float], low: Sequence[float] | None, high: Sequence[float] | None
) -> list[list[float]] | None:
    """Return the lengths `[2, n]` of error bars, below and above the middle."""
    if low is None or high is None:
        return None
    return [
        [max(0.0, at - end) for at, end in zip(middle, low, strict=True)],
        [max(0.0, end - at) for at, end in zip(middle, high, strict=True)],
    ]


def plain_label(name: str) -> str:
    """Return a label that matplotlib draws unchanged."""
    text = harmless(name)
    # A legend leaves out labels that begin with _: a space of width 0 hides it.
    return f"\u200b{text}" if text.startswith("_") else text


def aslant(axes: "Axes", labels: Sequence[str]) -> None:
    """Write the names below the axis aslant if they are too long to be horizontal."""
    if sum(map(len, labels)) > _LEVEL:
        axes.tick_params(axis="x", labelrotation=40)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def _name_ticks(axes: "Axes", names: Sequence[str]) -> None:
    labels = [plain_label(name) for name in names]
    axes.set_xticks(range(len(labels)), labels)
    aslant(axes, labels)


def legend_above(figure: "Figure", names: Sequence[str]) -> None:
    """Put the legend above the axes, in two columns if the names are short."""
    short = max(map(len, names), default=0) <= _LEVEL - 10
    figure.legend(loc="outside upper center", ncols=2 if short else 1)


def logarithmic_axis(axes: "Axes", name: str) -> None:
    """Give the axis `x` or `y` a logarithmic scale, after everything is drawn.

    Its numbers are plain text: `STYLE` does not parse formulas.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis = axes.xaxis if name == "x" else axes.yaxis
    axes.set(**{f"{name}scale": "log"})
    low, high = sorted(axis.get_view_interval())
    # Within two decades, powers of ten alone are too few ticks.
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7) if high < 100 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))
