import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from measure.charts import (
    COLOURS,
    Bars,
    Point,
    Series,
    error_bars,
    grouped_bars,
    pixels,
    plain_label,
    save,
    scatter,
)

LAYERS = [1, 2, 3]
LINE = Series(name="bert", x=LAYERS, mean=[0.9, 0.8, 0.7], std=[0.1, 0.2, 0.1])


@pytest.mark.long
def test_a_png(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.png"
    figure = error_bars([LINE], path, x_label="layer", y_label="cosine", title="t")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert b"matplotlib" not in content.lower()
    assert pixels(figure).shape == (600, 960, 4)
    # The same figure, drawn anew.
    error_bars([LINE], path, x_label="layer", y_label="cosine", title="t")
    assert path.read_bytes() == content
    assert [one.name for one in path.parent.iterdir()] == ["a.png"]


def test_lines_are_told_apart() -> None:
    every = [replace(LINE, name=str(i), mean=[i, i, i]) for i in range(len(COLOURS))]
    (axes,) = error_bars([replace(one, std=None) for one in every]).axes
    # Those without a mark lead to the names.
    lines = [line for line in axes.get_lines() if line.get_marker()]
    looks = {(one.get_color(), one.get_marker(), one.get_linestyle()) for one in lines}
    assert len(looks) == len(COLOURS)
    assert len({line.get_marker() for line in lines}) == len(COLOURS)
    assert axes.get_xticks().tolist() == LAYERS


def test_bars_stand_beside_each_other() -> None:
    lines = [replace(LINE, name=str(i)) for i in range(len(COLOURS))]

    def starts(every: list[Series], **named: Any) -> list[float]:
        (axes,) = error_bars(every, **named).axes
        names = {one.name for one in every}
        drawn = [one for one in axes.containers if one.get_label() in names]
        return [float(one[0].get_xdata()[0]) for one in drawn]

    found = starts(lines)
    assert found == sorted(set(found))
    assert all(abs(start - 1) <= 0.25 for start in found)
    # Without bars, or over a logarithmic axis, each at its place.
    assert starts([replace(one, std=None) for one in lines]) == [1.0] * len(lines)
    assert starts(lines, logarithmic="x") == [1.0] * len(lines)


@pytest.mark.long
def test_a_logarithmic_axis_has_plain_numbers() -> None:
    figure = error_bars([Series(name="a", x=[1, 100], mean=[1e-6, 10])], logarithmic="xy")
    pixels(figure)
    (axes,) = figure.axes
    labels = [
        label.get_text() for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()
    ]
    assert {"1", "10", "100", "1e-06"} <= set(labels)
    assert not [label for label in labels if "$" in label]


def test_what_heights_compare_with() -> None:
    lines = [replace(LINE, name=name, reference=[0.5, 0.6, 0.7]) for name in "ab"]
    (axes,) = error_bars(lines, reference="by chance").axes
    legend = axes.get_legend()
    assert legend is not None
    # In the colours of its lines, and named once.
    assert [text.get_text() for text in legend.get_texts()] == ["by chance", "a", "b"]
    drawn = [one for one in axes.get_lines() if list(one.get_ydata()) == [0.5, 0.6, 0.7]]  # type: ignore[arg-type] # its arrays
    assert [one.get_color() for one in drawn] == list(COLOURS[:2])


@pytest.mark.parametrize("name", ["_a", "$x_", "模型", "a\x1b[31m", "\u202eabc", "100%_\\"])
def test_any_name_is_drawn(tmp_path: Path, name: str) -> None:
    line = Series(name=name, x=[1], mean=[0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = error_bars([line], tmp_path / "a.png", title=name)
        pixels(figure)
    assert [text.get_text() for text in figure.axes[0].texts] == [plain_label(name)]


@pytest.mark.parametrize("count", [12, 40])
def test_there_is_no_half_layer(count: int) -> None:
    layers = list(range(1, count + 1))
    (axes,) = error_bars([Series(name="", x=layers, mean=[0.5] * count)]).axes
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    assert axes.get_legend() is None


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([], "got 0 series to draw"),
        ([Series(name="a", x=[], mean=[])], "'a' with 0 x, 0 mean, expected at least 1 of each"),
        ([Series(name="a", x=[1], mean=[1, 2])], "1 x, 2 mean, expected 1 of each"),
        ([Series(name="a", x=[1], mean=[1], reference=[1, 2])], "1 x, 1 mean, 2 reference"),
        ([Series(name="a", x=[1], mean=[1], std=[])], "1 x, 1 mean, 0 std"),
    ],
)
def test_nothing_to_draw(series: list[Series], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        error_bars(series)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="could not write"):
        save(error_bars([LINE]), tmp_path / "folder")


TWO = ["128", "256"]
BARS = Bars(name="a", height=[2.0, 3.0], low=[1.5, 3.0], high=[2.25, 4.0])


@pytest.mark.long
def test_groups_of_bars(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    every = [replace(BARS, name=str(i)) for i in range(len(COLOURS))]
    figure = grouped_bars(TWO, every, path, x_label="tokens", y_label="ratio", line=1.0)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    grouped_bars(TWO, every, path, x_label="tokens", y_label="ratio", line=1.0)
    assert path.read_bytes() == content
    (axes,) = figure.axes
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    looks = {(bar.get_facecolor(), bar.get_hatch()) for bar in bars}
    assert len(looks) == len({bar.get_hatch() for bar in bars}) == len(COLOURS)
    # Side by side around the middle of their group, from zero up.
    places = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars)
    assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(places))
    assert places[0][0] == pytest.approx(-0.4)
    assert axes.get_ylim()[0] == 0
    assert [tick.get_text() for tick in axes.get_xticklabels()] == TWO
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        one.name for one in every
    ]


def test_whiskers_reach_from_low_to_high() -> None:
    (axes,) = grouped_bars(TWO, [BARS]).axes
    (whiskers,) = (one for one in axes.collections if isinstance(one, LineCollection))
    ends = [sorted(y for _, y in segment.tolist()) for segment in whiskers.get_segments()]
    assert ends == [[1.5, 2.25], [3.0, 4.0]]
    (axes,) = grouped_bars(TWO, [Bars(name="_a", height=[1.0, 2.0])]).axes
    assert not axes.collections


@pytest.mark.parametrize(
    ("groups", "series", "message"),
    [
        ([], [BARS], "1 series to draw in 0 groups"),
        (TWO, [], "0 series to draw in 2 groups"),
        (["128"], [BARS], "'a' with 2 height, 2 low, 2 high, expected 1 of each"),
        (TWO, [replace(BARS, high=[1.0])], "'a' with 2 height, 2 low, 1 high, expected 2 of each"),
        (TWO, [replace(BARS, high=None)], "both low and high or neither"),
    ],
)
def test_no_bars_to_draw(groups: list[str], series: list[Bars], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grouped_bars(groups, series)


def test_points_with_intervals() -> None:
    every = [
        Point(name="_a$", x=1.0, y=2.0, x_ends=(0.5, 1.25), y_ends=(1.0, 4.0)),
        Point(name="b", x=3.0, y=1.0),
    ]
    figure = scatter(every, x_label="accuracy", y_label="under attack")
    (axes,) = figure.axes
    ends = [one.get_segments() for one in axes.collections if isinstance(one, LineCollection)]
    assert [[tuple(point) for point in segment[0]] for segment in ends] == [
        [(0.5, 2.0), (1.25, 2.0)],
        [(1.0, 1.0), (1.0, 4.0)],
    ]
    assert not figure.legends
    assert [text.get_text() for text in axes.texts] == ["\u200b_a$", "b"]
    (joined,) = scatter(every, line=[(1.0, 2.0), (2.0, 2.5)]).axes[0].lines[:1]
    assert np.asarray(joined.get_xydata()).tolist() == [[1.0, 2.0], [2.0, 2.5]]
    with pytest.raises(ValueError, match="got no points"):
        scatter([])


def test_a_long_interval_leaves_the_points_apart() -> None:
    every = [
        Point(name="a", x=1.0, y=2.0, x_ends=(-100.0, 100.0), y_ends=(1.5, 2.25)),
        Point(name="b", x=3.0, y=1.0),
    ]
    (axes,) = scatter(every).axes
    assert axes.get_xlim() == (-1.0, 5.0)
    low, high = axes.get_ylim()
    assert 0.0 <= low < 1.0
    assert 2.25 < high <= 3.0
    (axes,) = scatter(every[:1]).axes
    assert axes.get_xlim()[0] < -99


@pytest.mark.long
def test_many_points_are_rows() -> None:
    every = [Point(name=f"row {i}", x=i, y=i % 20, y_ends=(i % 20 - 1, 300)) for i in range(24)]
    figure = scatter(every, line=[(3.0, 3.0)], x_label="accuracy", y_label="attacked")
    figure.draw_without_rendering()
    left, right = figure.axes
    assert (left.get_xlabel(), right.get_xlabel()) == ("accuracy", "attacked")
    names = [text.get_text() for text in left.get_yticklabels()]
    assert names[0] == "row 19"
    assert sorted(names) == sorted(point.name for point in every)
    # The point of the line has another colour; long intervals are cut.
    colours = [str(line.get_color()) for line in left.lines]
    assert colours.count(COLOURS[1]) == 1
    assert names[colours.index(COLOURS[1])] == "row 3"
    assert right.get_xlim()[1] <= 38
    boxes = [text.get_window_extent() for text in left.get_yticklabels()]
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_named_places_and_uneven_bars() -> None:
    line = Series(name="a", x=range(3), mean=[1, 2, 3], low=[0, 2, 1], high=[1, 2, 5])
    (axes,) = error_bars([line], ticks=["one", "two", "three"]).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["one", "two", "three"]
    (bars,) = (one for one in axes.collections if isinstance(one, LineCollection))
    assert [[point[1] for point in segment] for segment in bars.get_segments()] == [
        *([0, 1], [2, 2], [1, 5])
    ]
    with pytest.raises(ValueError, match="expected 3 of each"):
        error_bars([replace(line, low=[0])])


def test_marks_stand_above_bars() -> None:
    bars = Bars(name="a", height=[1, 2], low=[1, 1], high=[3, 2], marks=["†", ""])
    (axes,) = grouped_bars(["x", "y"], [bars]).axes
    (mark,) = axes.texts
    assert mark.get_text() == "†"
    assert mark.xy == (0.0, 3)  # type: ignore[attr-defined] # an annotation
    with pytest.raises(ValueError, match="1 marks, expected 2 of each"):
        grouped_bars(["x", "y"], [replace(bars, marks=["†"])])


@pytest.mark.long
def test_an_svg(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    error_bars([LINE], path, title="a < b", description="who & what")
    content = path.read_text()
    assert content.startswith("<?xml")
    assert "who &amp; what" in content
    error_bars([LINE], path, title="a < b", description="who & what")
    assert path.read_text() == content
