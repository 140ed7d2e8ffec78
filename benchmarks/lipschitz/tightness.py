"""The gap between a proven bound and what ascent finds (Figures 2 and 7 of Kim et al.)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any

import torch
from torch import Tensor

from benchmarks.command import table
from benchmarks.lipschitz.ascent import Ascent, climb, random_inputs, value
from benchmarks.lipschitz.experiment import Experiment, Pictures, Point, Points, Rows
from benchmarks.lipschitz.subjects import BoundedLayer, Subject, build, option
from layers.attention.l2_bounds import phi_inverse
from layers.norms import NORMS, Norm
from measure.charts import Series, error_bars
from text import check_choice, check_range

_ENTRIES = 4_000_000
"""Attention weights of the starts that climb together."""


@dataclass(frozen=True, kw_only=True)
class Tightness(Experiment):
    """Proven bounds and the best norms of an ascent, for texts of several lengths."""

    name = "tightness"
    text = "proven bounds, and the largest norm found"
    points_name = "points"
    layer: Subject = Subject()
    norm: Norm = option("inf", "2 or inf, of all numbers of a text", "NORM")
    lengths: Sequence[int] = option(tuple(range(100, 1001, 100)), "numbers of tokens")
    ascent: Ascent = Ascent(starts=50, steps=1000)
    top: int = option(5, "best starts to show", "K")

    def __post_init__(self) -> None:
        check_choice("norm", self.norm, NORMS)
        check_range({"top": self.top}, least=1)
        if not self.lengths or any(n < 2 for n in self.lengths):
            msg = f"got lengths={list(self.lengths)}, expected numbers of tokens of 2 or more"
            raise ValueError(msg)

    @property
    def all_kinds(self) -> Sequence[str]:
        return [self.layer.kind]

    @property
    def shown(self) -> int:
        """Starts that a point shows, the best ones first."""
        return min(self.top, self.ascent.starts)

    def subject(self) -> dict[str, Any]:
        settings = super().subject()
        layer = settings.pop("layer")
        del layer["runs_dir"]
        return settings | {"subject": layer, "top": self.shown, "seed": self.layer.seed}

    def prepare(self) -> None:
        build(self.layer, min(self.lengths), self.norm, torch.device("cpu"))

    def keys(self) -> Sequence[int]:
        return self.lengths

    def measure(self, key: int) -> Point:
        """Measure the texts of `key` tokens."""
        layer, width = build(self.layer, key, self.norm, self.device), self.layer.width
        rows = 1 if self.norm == "inf" else key
        group = max(1, _ENTRIES // (rows * key * self.layer.heads * width))
        # A seed for each start, whatever the group size.
        first = (self.layer.seed * 10**6 + key) * 10**6
        seeds = [first + start for start in range(self.ascent.starts)]
        norms: list[Tensor] = []
        for begin in range(0, len(seeds), group):
            x = random_inputs(seeds[begin : begin + group], key, width).to(self.device)
            norms.append(climb(layer, x, self.norm, self.ascent).best.cpu())
        best = torch.cat(norms).sort(descending=True).values[: self.shown].tolist()
        return {
            "tokens": key,
            "proven": layer.bounds,
            "found": best,
            "two_sides": self._two_sides(layer, key),
        }

    def _two_sides(self, layer: BoundedLayer, tokens: int) -> float:
        """Return the norm where the other tokens are on two sides of the first, at sqrt(1 + c)."""
        c = float(phi_inverse(torch.tensor(tokens - 1)))
        size = self.layer.width // self.layer.heads
        x = torch.zeros(1, tokens, self.layer.width, dtype=torch.float64, device=self.device)
        x[0, 1:, 0] = math.sqrt(1 + c) * size**0.25
        # Every second token is on the other side of the first, which is 0.
        x[0, 2::2, 0] *= -1
        return float(value(layer, x, self.norm)[0])

    def rows(self, points: Points) -> list[dict[str, Any]]:
        return [
            {
                "tokens": point["tokens"],
                **point["proven"],
                **{f"found_{i}": norm for i, norm in enumerate(point["found"], start=1)},
                "two_sides": point["two_sides"],
            }
            for point in points
        ]

    def _names(self, row: Mapping[str, Any]) -> list[str]:
        """Return the columns of the table: bounds, the best norm found, two sides."""
        return [name for name in row if name == "found_1" or not name.startswith(("found", "tok"))]

    def summary(self, rows: Rows) -> dict[str, Any]:
        """Return the slopes of the columns over log N."""
        return {"slopes": {n: self._slope([row[n] for row in rows]) for n in self._names(rows[0])}}

    def _slope(self, values: list[float]) -> float:
        """Return the slope of the least squares line over log N; 0 for one point."""
        lengths = [math.log(n) for n in self.lengths]
        return linear_regression(lengths, values).slope if len(set(lengths)) > 1 else 0.0

    def table(self, points: Points, rows: Rows) -> str:
        names = self._names(rows[0])
        lines = [(row["tokens"], row) for row in rows]
        if len(rows) > 1:
            lines.append(("slope over log N", self.summary(rows)["slopes"]))
        cells = [[start, *(f"{line[name]:.4f}" for name in names)] for start, line in lines]
        return table(["N", *(n.removesuffix("_1").replace("_", " ") for n in names)], cells)

    def figures(self, points: Points, rows: Rows) -> Pictures:
        bounds = list(points[0]["proven"])
        if self.norm == "inf" and {"paper", "kim"} <= set(bounds):
            bounds.remove("kim")  # the same as printed
        best = [row["found_1"] for row in rows]
        columns = {f"proven, {name}": [row[name] for row in rows] for name in bounds}
        series = [Series(name=name, x=self.lengths, mean=mean) for name, mean in columns.items()]
        low = [min(point["found"]) for point in points]
        name = f"found, best {self.shown}"
        series.append(Series(name=name, x=self.lengths, mean=best, low=low, high=best))
        sides = [row["two_sides"] for row in rows]
        series.append(Series(name="found, two sides", x=self.lengths, mean=sides))
        figure = error_bars(
            series,
            x_label="tokens N",
            y_label=f"Lipschitz constant, norm {self.norm}",
            title=f"{self.layer.kind}, D = {self.layer.width}, H = {self.layer.heads}",
            logarithmic="x",
        )
        yield self.name, figure
