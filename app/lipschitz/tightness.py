"""The gap between a proven bound and what can be found (Figures 2 and 7 of Kim et al.)."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from app.figures.charts import Series, error_bars, save
from app.lipschitz.ascent import Ascent, climb, random_inputs, value
from app.lipschitz.points import Point, measured, write_csv, write_json
from app.lipschitz.subjects import Built, Subject, build
from app.lipschitz.trained import described
from layers.attention.l2_bounds import phi_inverse
from layers.norms import NORMS, Norm
from text import check_choice, check_range

_ENTRIES = 4_000_000
"""Attention weights of the starts that climb together."""


@dataclass(frozen=True, kw_only=True)
class Tightness:
    """The settings of the figure.

    Attributes:
        subject: the attention.
        norm: `2` or `inf`.
        lengths: numbers of tokens N, one point of the figure each.
        ascent: how the lower bound is found.
        top: number of starts that a point shows, the best ones first.
        seed: of the starts.
    """

    subject: Subject
    norm: Norm
    lengths: Sequence[int]
    ascent: Ascent
    top: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks the settings."""
        check_choice("norm", self.norm, NORMS)
        check_range({"top": self.top}, least=1)
        if not self.lengths or any(n < 2 for n in self.lengths):
            msg = f"got lengths={list(self.lengths)}, expected numbers of tokens of 2 or more"
            raise ValueError(msg)


def point(given: Tightness, device: torch.device, tokens: int) -> Point:
    """Measures the texts of one length.

    Args:
        given: the settings.
        device: where it is computed.
        tokens: N.
    """
    layer = build(given.subject, tokens, given.norm, device)
    width = given.subject.width
    rows = 1 if given.norm == "inf" else tokens
    group = max(1, _ENTRIES // (rows * tokens * given.subject.heads * width))
    first = (given.seed * 10**6 + tokens) * 10**6
    seeds = [first + start for start in range(given.ascent.starts)]
    found: list[Tensor] = []
    for begin in range(0, len(seeds), group):
        x = random_inputs(seeds[begin : begin + group], tokens, width).to(device)
        found.append(climb(layer, x, given.norm, given.ascent).best.cpu())
    best = torch.cat(found).sort(descending=True).values[: given.top].tolist()
    return {
        "tokens": tokens,
        "proven": layer.proven,
        "found": best,
        "two_sides": _two_sides(layer, given, tokens, device),
    }


def _two_sides(layer: Built, given: Tightness, tokens: int, device: torch.device) -> float:
    """The norm where the other tokens stand on two sides of the first, at sqrt(1 + c)."""
    c = float(phi_inverse(torch.tensor(tokens - 1)))
    size = given.subject.width // given.subject.heads
    x = torch.zeros(1, tokens, given.subject.width, dtype=torch.float64, device=device)
    x[0, 1:, 0] = math.sqrt(1 + c) * size**0.25
    x[0, 2::2, 0] *= -1
    return float(value(layer, x, given.norm)[0])


def run(given: Tightness, folder: Path, device: torch.device) -> list[str]:
    """Measures all points, writes figures and pictures, and returns the lines of a table.

    Args:
        given: the settings.
        folder: of the run.
        device: where it is computed.
    """
    # Before the first point, which may take minutes.
    build(given.subject, min(given.lengths), given.norm, torch.device("cpu"))
    settings = {"experiment": "tightness", **asdict(given)}
    del settings["subject"]["runs_dir"]
    about = described(settings, [given.subject.kind], given.subject.runs_dir)
    path = folder / "points.jsonl"
    points = measured(path, about, given.lengths, partial(point, given, device))
    names = list(points[0]["proven"])
    rows = [_row(one, names, given.top) for one in points]
    slopes = {
        name: _slope(given.lengths, [row[name] for row in rows])
        for name in (*names, "found_1", "two_sides")
    }
    write_json(folder / "tightness.json", {"settings": about, "points": points, "slopes": slopes})
    write_csv(folder / "tightness.csv", rows)
    _draw(given, rows, names, folder)
    head = f"{'N':>6}" + "".join(f"{name:>12}" for name in (*names, "found", "two sides"))
    shown = (*names, "found_1", "two_sides")
    lines = [f"{row['tokens']:>6}" + "".join(f"{row[n]:>12.4f}" for n in shown) for row in rows]
    if len(rows) > 1:
        lines.append(f"{'slope':>6}" + "".join(f"{slopes[n]:>12.4f}" for n in shown))
        lines.append("slope: of a line through the points, over the logarithm of N")
    return [head, *lines]


def _row(one: Point, names: list[str], top: int) -> dict[str, Any]:
    found = dict(enumerate(one["found"], start=1))
    return {
        "tokens": one["tokens"],
        **{name: one["proven"][name] for name in names},
        **{f"found_{i}": found.get(i) for i in range(1, top + 1)},
        "two_sides": one["two_sides"],
    }


def _slope(lengths: Sequence[int], values: list[float]) -> float:
    """The slope of the least squares line of the values over log N; 0 for one point."""
    x = torch.tensor([math.log(n) for n in lengths], dtype=torch.float64)
    y = torch.tensor(values, dtype=torch.float64)
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / x.square().sum().clamp_min(1e-300))


def _draw(given: Tightness, rows: list[dict[str, Any]], names: list[str], folder: Path) -> None:
    lengths = [row["tokens"] for row in rows]
    tops = [[row[f"found_{i}"] for i in range(1, given.top + 1)] for row in rows]
    series = [
        *(Series(name=f"proven, {n}", x=lengths, mean=[row[n] for row in rows]) for n in names),
        Series(
            name=f"found, best {given.top}",
            x=lengths,
            mean=[top[0] for top in tops],
            low=[min(one for one in top if one is not None) for top in tops],
            high=[top[0] for top in tops],
        ),
        Series(name="found, two sides", x=lengths, mean=[row["two_sides"] for row in rows]),
    ]
    if given.norm == "inf" and {"paper", "kim"} <= set(names):
        series = [one for one in series if one.name != "proven, kim"]  # the same as printed
    what = f"{given.subject.kind}, D = {given.subject.width}, H = {given.subject.heads}"
    figure = error_bars(
        series,
        x_label="tokens N",
        y_label=f"Lipschitz constant, norm {given.norm}",
        title=what,
        logarithmic="x",
    )
    for ending in ("png", "svg"):
        save(figure, folder / f"tightness.{ending}", "app lipschitz tightness")
