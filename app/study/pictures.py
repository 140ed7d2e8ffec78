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


def draw_all(content: Content, out: Path) -> list[Path]:
    """Draw all pictures with figures as PNG and SVG, `STUDY-PICTURE.png`, and return the files."""
    name = content["study"]["name"]
    return [
        path
        for picture in content["pictures"]
        for suffix in SUFFIXES
        if draw(content, picture, path := out / f"{name}-{picture['name']}{suffix}")
    ]


def draw(content: Content, picture: Mapping[str, Any], path: Path) -> bool:
    """Draw a picture; return False if there is nothing to draw."""
    by_name = {column["name"]: column for column in content["columns"]}
    columns = [by_name[name] for name in picture["columns"]]
    grid: list[tuple[Mapping[str, Any], list[_Figure]]] = []
    for row in content["rows"]:
        figures = [_figure(content, picture, row, column) for column in columns]
        if any(math.isfinite(figure.mean) for figure in figures):
            grid.append((row, figures))
    if not grid:
        return False
    corpora = {corpus["name"]: corpus["title"] for corpus in content["corpora"]}
    corpus = corpora.get(picture["corpus"] or "", "")
    title = content["study"]["title"] + (f" ({corpus})" if corpus else "")
    if picture["kind"] == "scatter":
        line = _line(content, picture)
        x_label, y_label = (column["title"] for column in columns[:2])
        return _scatter(grid, path, line, x_label=x_label, y_label=y_label, title=title)
    groups = list(zip(*(figures for _, figures in grid), strict=True))
    intervals = any(figure.ends is not None for group in groups for figure in group)
    heights = columns[0]["title"] if len(columns) == 1 else ""
    labels = [heights, "mean and 95 % interval over seeds" if intervals else ""]
    y_label, names = "; ".join(filter(None, labels)), [row["title"] for row, _ in grid]
    bars, lines = [], []
    for column, group in zip(columns, groups, strict=True):
        means, marks = [figure.mean for figure in group], [figure.doubt for figure in group]
        # A figure without an interval has a bar of length 0.
        ends = [figure.ends or (figure.mean, figure.mean) for figure in group]
        low, high = (list(side) for side in zip(*ends, strict=True))
        bars.append(Bars(name=column["title"], height=means, marks=marks, low=low, high=high))
        name = column["title"] + max(marks)
        lines.append(Series(name=name, x=range(len(grid)), mean=means, low=low, high=high))
    if picture["kind"] == "bars":
        grouped_bars(names, bars, path, y_label=y_label, title=title)
    else:
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


def _line(content: Content, picture: Mapping[str, Any]) -> list[str]:
    """Return the rows that a line joins in a scatter; none where the study has no such line."""
    matched = content.get("matched")
    if not matched or picture["columns"][0] != matched["at"]:
        return []
    compared = {line["column"] for line in matched["lines"]}
    return matched["rows"] if picture["columns"][1] in compared else []


def _scatter(
    grid: Sequence[tuple[Mapping[str, Any], Sequence[_Figure]]],
    path: Path,
    line: Sequence[str],
    **labels: str,
) -> bool:
    points, joined = [], []
    for row, (x, y, *_) in grid:
        if math.isfinite(x.mean) and math.isfinite(y.mean):
            name = row["title"] + max(x.doubt, y.doubt)
            points.append(Point(name=name, x=x.mean, y=y.mean, x_ends=x.ends, y_ends=y.ends))
            if row["name"] in line:
                joined.append((x.mean, y.mean))
    if points:
        # By accuracy: the reference line never turns back.
        scatter(points, path, line=sorted(joined), **labels)
    return bool(points)
