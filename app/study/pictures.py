"""Draws the pictures of a study, from the content of its `study.json` alone."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app.figures.charts import Bars, Point, Series, error_bars, grouped_bars, scatter
from app.study.tables import Content, doubts

SUFFIXES = (".png", ".svg")


def draw_all(content: Content, out: Path) -> list[Path]:
    """Draws all pictures as PNG and SVG, `STUDY-PICTURE.png`; one without figures is left out.

    Args:
        content: of a `study.json`.
        out: the folder.

    Returns:
        The files.

    Raises:
        OSError: one cannot be written.
    """
    written = []
    for picture in content["pictures"]:
        for suffix in SUFFIXES:
            path = out / f"{content['study']['name']}-{picture['name']}{suffix}"
            if draw(content, picture, path):
                written.append(path)
    return written


def draw(content: Content, picture: Mapping[str, Any], path: Path) -> bool:
    """Draws a picture.

    Args:
        content: of a `study.json`.
        picture: one of its `pictures`.
        path: the PNG or SVG.

    Returns:
        False if there are no figures to draw.

    Raises:
        OSError: the file cannot be written.
    """
    columns = {one["name"]: one for one in content["columns"]}
    chosen = [columns[name] for name in picture["columns"]]
    grid = {
        (row["name"], column["name"]): _figure(content, picture, row, column)
        for row in content["rows"]
        for column in chosen
    }
    rows = [
        row
        for row in content["rows"]
        if any(math.isfinite(grid[row["name"], column["name"]].mean) for column in chosen)
    ]
    if not rows:
        return False
    titles = {one["name"]: one["title"] for one in content["corpora"]}
    where = titles.get(picture["corpus"] or "", "")
    title = content["study"]["title"] + (f" ({where})" if where else "")
    intervals = any(one.ends is not None for one in grid.values())
    said = "mean and 95 % interval over seeds" if intervals else ""
    if picture["kind"] == "scatter":
        return _scatter(rows, chosen, grid, path, title=title, line=_line(content, picture))
    heights = chosen[0]["title"] if len(chosen) == 1 else ""
    label = "; ".join(part for part in (heights, said) if part)
    (_bars if picture["kind"] == "bars" else _lines)(
        rows, chosen, grid, path, title=title, y_label=label
    )
    return True


class _Figure(NamedTuple):
    """A figure to draw.

    Attributes:
        mean: not a number where there is none.
        ends: of its interval over seeds; None for a single seed.
        doubt: signs of a figure that measures no robustness.
    """

    mean: float
    ends: tuple[float, float] | None
    doubt: str

    @property
    def low(self) -> float:
        """Lower end; the mean where there is no interval."""
        return self.mean if self.ends is None else self.ends[0]

    @property
    def high(self) -> float:
        """Upper end; the mean where there is no interval."""
        return self.mean if self.ends is None else self.ends[1]


Grid = Mapping[tuple[str, str], _Figure]
Named = Sequence[Mapping[str, Any]]


def _figure(
    content: Content,
    picture: Mapping[str, Any],
    row: Mapping[str, Any],
    column: Mapping[str, Any],
) -> _Figure:
    corpus = column["corpus"] or picture["corpus"] or ""
    key = (row["name"], corpus, column["name"])
    for one in content["figures"]:
        if (one["row"], one["corpus"], one["column"]) == key and one["mean"] is not None:
            ends = None if one["low"] is None else (one["low"], one["high"])
            return _Figure(one["mean"], ends, doubts(one))
    return _Figure(math.nan, None, doubt="")


def _bars(rows: Named, columns: Named, grid: Grid, path: Path, *, title: str, y_label: str) -> None:
    series = []
    for column in columns:
        every = [grid[row["name"], column["name"]] for row in rows]
        series.append(
            Bars(
                name=column["title"],
                height=[one.mean for one in every],
                low=[one.low for one in every],
                high=[one.high for one in every],
                marks=[one.doubt for one in every],
            )
        )
    names = [row["title"] for row in rows]
    grouped_bars(names, series, path, y_label=y_label, title=title)


def _lines(
    rows: Named, columns: Named, grid: Grid, path: Path, *, title: str, y_label: str
) -> None:
    series = []
    for column in columns:
        every = [grid[row["name"], column["name"]] for row in rows]
        doubt = max(one.doubt for one in every)
        series.append(
            Series(
                name=column["title"] + doubt,
                x=range(len(rows)),
                mean=[one.mean for one in every],
                low=[one.low for one in every],
                high=[one.high for one in every],
            )
        )
    names = [row["title"] for row in rows]
    error_bars(series, path, y_label=y_label, title=title, ticks=names)


def _line(content: Content, picture: Mapping[str, Any]) -> list[str]:
    """The rows that a line joins in a scatter; none where the study has no line of its columns."""
    matched = content.get("matched")
    if not matched or picture["columns"][0] != matched["at"]:
        return []
    compared = {one["column"] for one in matched["lines"]}
    return matched["rows"] if picture["columns"][1] in compared else []


def _scatter(
    rows: Named, columns: Named, grid: Grid, path: Path, *, title: str, line: Sequence[str]
) -> bool:
    across, up = columns[:2]
    every = []
    for row in rows:
        x, y = grid[row["name"], across["name"]], grid[row["name"], up["name"]]
        if math.isfinite(x.mean) and math.isfinite(y.mean):
            doubt = max(x.doubt, y.doubt)
            point = Point(
                name=row["title"] + doubt, x=x.mean, y=y.mean, x_ends=x.ends, y_ends=y.ends
            )
            every.append(point)
    joined = [(grid[name, across["name"]].mean, grid[name, up["name"]].mean) for name in line]
    joined = sorted(one for one in joined if all(map(math.isfinite, one)))
    if every:
        labels = {"x_label": across["title"], "y_label": up["title"], "title": title}
        scatter(every, path, line=joined, **labels)
    return bool(every)
