"""Draws the pictures of a study, from the content of its `study.json` alone."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app.study.study_json import find
from app.study.tables import Content, doubts
from measure.charts import Bars, Point, Series, error_bars, grouped_bars, scatter

SUFFIXES = (".png", ".svg")


class _Figure(NamedTuple):
    """A mean (NaN for none), the ends of its interval over seeds, and signs of doubt."""

    mean: float = math.nan
    ends: tuple[float, float] | None = None
    doubt: str = ""


Grid = Mapping[tuple[str, str], _Figure]
"""Figures by the names of row and column."""
Items = Sequence[Mapping[str, Any]]


def draw_all(content: Content, out: Path) -> list[Path]:
    """Draw all pictures with figures as PNG and SVG, `STUDY-PICTURE.png`, and return the files."""
    return [
        path
        for picture in content["pictures"]
        for suffix in SUFFIXES
        if draw(
            content, picture, path := out / f"{content['study']['name']}-{picture['name']}{suffix}"
        )
    ]


def draw(content: Content, picture: Mapping[str, Any], path: Path) -> bool:
    """Draw a picture; return False if there is nothing to draw."""
    by_name = {column["name"]: column for column in content["columns"]}
    columns = [by_name[name] for name in picture["columns"]]
    grid = {
        (row["name"], column["name"]): _figure(content, picture, row, column)
        for row in content["rows"]
        for column in columns
    }
    rows = [
        row
        for row in content["rows"]
        if any(math.isfinite(grid[row["name"], column["name"]].mean) for column in columns)
    ]
    if not rows:
        return False
    corpora = {corpus["name"]: corpus["title"] for corpus in content["corpora"]}
    corpus = corpora.get(picture["corpus"] or "", "")
    title = content["study"]["title"] + (f" ({corpus})" if corpus else "")
    if picture["kind"] == "scatter":
        return _scatter(rows, columns, grid, path, title=title, line=_line(content, picture))
    intervals = any(figure.ends is not None for figure in grid.values())
    heights = columns[0]["title"] if len(columns) == 1 else ""
    labels = [heights, "mean and 95 % interval over seeds" if intervals else ""]
    y_label, names = "; ".join(filter(None, labels)), [row["title"] for row in rows]
    figures = [[grid[row["name"], column["name"]] for row in rows] for column in columns]
    if picture["kind"] == "bars":
        bars = [
            Bars(
                name=column["title"],
                height=[figure.mean for figure in group],
                marks=[figure.doubt for figure in group],
                **_ends(group),
            )
            for column, group in zip(columns, figures, strict=True)
        ]
        grouped_bars(names, bars, path, y_label=y_label, title=title)
    else:
        lines = [
            Series(
                name=column["title"] + max(figure.doubt for figure in group),
                x=range(len(rows)),
                mean=[figure.mean for figure in group],
                **_ends(group),
            )
            for column, group in zip(columns, figures, strict=True)
        ]
        error_bars(lines, path, y_label=y_label, title=title, ticks=names)
    return True


def _figure(
    content: Content, picture: Mapping[str, Any], row: Mapping[str, Any], column: Mapping[str, Any]
) -> _Figure:
    # The corpus of the column comes first: one chart may show several corpora.
    corpus = column["corpus"] or picture["corpus"] or ""
    line = find(content["figures"], row=row["name"], corpus=corpus, column=column["name"])
    if line is None or line["mean"] is None:
        return _Figure()
    ends = None if line["low"] is None else (line["low"], line["high"])
    return _Figure(line["mean"], ends, doubts(line))


def _ends(figures: Sequence[_Figure]) -> dict[str, list[float]]:
    """Return the ends of the error bars; a figure without an interval has a bar of length 0."""
    ends = [figure.ends or (figure.mean, figure.mean) for figure in figures]
    return {"low": [low for low, _ in ends], "high": [high for _, high in ends]}


def _line(content: Content, picture: Mapping[str, Any]) -> list[str]:
    """Return the rows that a line joins in a scatter; none where the study has no such line."""
    matched = content.get("matched")
    if not matched or picture["columns"][0] != matched["at"]:
        return []
    compared = {line["column"] for line in matched["lines"]}
    return matched["rows"] if picture["columns"][1] in compared else []


def _scatter(
    rows: Items, columns: Items, grid: Grid, path: Path, *, title: str, line: Sequence[str]
) -> bool:
    across, up = columns[:2]
    points = []
    for row in rows:
        x, y = grid[row["name"], across["name"]], grid[row["name"], up["name"]]
        if math.isfinite(x.mean) and math.isfinite(y.mean):
            name = row["title"] + max(x.doubt, y.doubt)
            points.append(Point(name=name, x=x.mean, y=y.mean, x_ends=x.ends, y_ends=y.ends))
    joined = [(grid[name, across["name"]].mean, grid[name, up["name"]].mean) for name in line]
    # By accuracy: the reference line never turns back.
    joined = sorted(spot for spot in joined if all(map(math.isfinite, spot)))
    if points:
        labels = {"x_label": across["title"], "y_label": up["title"], "title": title}
        scatter(points, path, line=joined, **labels)
    return bool(points)
