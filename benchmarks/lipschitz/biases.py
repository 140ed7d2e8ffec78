"""The norm of the Jacobian where a token has no query: biases do not bound it (appendix D)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.command import table
from benchmarks.lipschitz.ascent import value
from benchmarks.lipschitz.experiment import AttentionExperiment, Pictures, Point, Points, Rows
from benchmarks.lipschitz.subjects import kinds_option, option
from measure.charts import Series, error_bars
from text import check_range


@dataclass(frozen=True, kw_only=True)
class Biases(AttentionExperiment):
    """The norm inf at a first token with x^T W^Q + b^Q = 0, for wider and wider other tokens."""

    name = "biases"
    text = "norm of the Jacobian where a query is 0"
    kinds: Sequence[str] = kinds_option("scaled_dot_product", "l2_tied")
    ranges: Sequence[float] = option(
        (1.0, 10.0, 100.0, 1000.0), "the other tokens are from U[-R, R]", "R"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for spread in self.ranges:
            check_range({"ranges": spread}, above=0)

    def measure(self, key: str) -> Point:
        """Measure one attention; `bias` is the norm of the bias of its queries."""
        layer = self.build(key)
        assert layer.queries is not None  # `build` refuses layers in a ball in the norm inf
        # Queries are affine in a token: those of 0 and of the unit vectors give bias and matrix.
        eye = torch.eye(self.width, dtype=torch.float64, device=self.device)
        bias = layer.queries(torch.zeros_like(eye[:1]))
        matrix = layer.queries(eye) - bias
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.rand(self.tokens, self.width, generator=generator, dtype=torch.float64)
        spreads = torch.tensor(self.ranges, dtype=torch.float64)[:, None, None]
        x = (spreads * (2 * drawn - 1)).to(self.device)
        # The last bits of a solution differ from run to run, and R would enlarge that.
        x[:, 0] = torch.linalg.lstsq(matrix.T, -bias.T).solution[:, 0].round(decimals=9)
        norms = value(layer, x, "inf").tolist()
        return {"kind": key, "bias": float(bias.norm()), "proven": layer.bounds, "norms": norms}

    def rows(self, points: Points) -> list[dict[str, Any]]:
        return [
            {"kind": point["kind"], "range": spread, "norm": norm}
            for point in points
            for spread, norm in zip(self.ranges, point["norms"], strict=True)
        ]

    def figures(self, points: Points, rows: Rows) -> Pictures:
        series = [Series(name=p["kind"], x=self.ranges, mean=p["norms"]) for p in points]
        yield self.name, error_bars(series, x_label="R", y_label=self.text, logarithmic="xy")

    def table(self, points: Points, rows: Rows) -> str:
        cells = [[p["kind"], f"{p['bias']:.3f}", *map("{:.4g}".format, p["norms"])] for p in points]
        return table(["kind", "norm of the bias", *(f"R = {r:g}" for r in self.ranges)], cells)
