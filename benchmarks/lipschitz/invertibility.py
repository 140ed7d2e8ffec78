"""Fixed-point inversion of x + c f(x), with f an attention (Kim et al., Figures 3, 5 and 6)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.command import table
from benchmarks.lipschitz.experiment import OnUniformInputs, Pictures, Point, Points, Rows
from benchmarks.lipschitz.subjects import BoundedLayer, kinds_option, option, short_names
from layers.invertible import Inversion, InvertibleResidual
from measure.charts import Series, error_bars
from text import check_range


@dataclass(frozen=True, kw_only=True)
class Invertibility(OnUniformInputs):
    """The largest error of a reconstruction after some evaluations of f."""

    name = "invertibility"
    text = "fixed-point inversion of x + c f(x)"
    kinds: Sequence[str] = kinds_option("l2_tied", "l2_contractive", "scaled_dot_product")
    factors: Sequence[float] = option((0.5, 0.7, 0.9), "the c of x + c f(x)", "C")
    iterations: Sequence[int] = option((1, 2, 4, 8, 16, 32, 64), "evaluations of f")

    def __post_init__(self) -> None:
        super().__post_init__()
        for c in self.factors:
            check_range({"factors": c}, above=0, below=1)
        check_range({"iterations": min(self.iterations, default=0)}, least=1)
        check_range({"factors": len(self.factors)}, least=1)
        if list(self.iterations) != sorted(set(self.iterations)):
            msg = f"got iterations={list(self.iterations)}, expected rising numbers"
            raise ValueError(msg)

    def keys(self) -> Sequence[tuple[str, float]]:
        return [(kind, c) for kind in self.kinds for c in self.factors]

    @torch.no_grad()
    def measure(self, key: tuple[str, float]) -> Point:
        """Invert with one attention and one factor."""
        kind, c = key
        x = self.inputs()
        residual = InvertibleResidual(_Branch(self.build(kind)), c=c, lipschitz=math.inf)
        y = residual(x)
        errors = []
        for most in self.iterations:
            # Never converged by tolerance: exactly `most` evaluations.
            settings = Inversion(tolerance=1e-300, most=most)
            inverse = residual.inverse(y, settings=settings, strict=False)
            errors.append(float((inverse.x - x).abs().amax()))
        return {"kind": kind, "c": c, "errors": errors}

    def rows(self, points: Points) -> list[dict[str, Any]]:
        return [
            {"kind": point["kind"], "c": point["c"], "evaluations": count, "error": error}
            for point in points
            for count, error in zip(self.iterations, point["errors"], strict=True)
        ]

    def figures(self, points: Points, rows: Rows) -> Pictures:
        names = short_names([point["kind"] for point in points])
        series = [
            Series(
                name=f"{name}, c = {point['c']:g}",
                x=[float(count) for count in self.iterations],
                # A logarithmic axis has no 0.
                mean=[max(error, 1e-17) for error in point["errors"]],
            )
            for name, point in zip(names, points, strict=True)
        ]
        figure = error_bars(
            series,
            x_label="evaluations of f",
            y_label="largest error of a reconstruction",
            title=self.title,
            logarithmic="xy",
        )
        yield self.name, figure

    def table(self, points: Points, rows: Rows) -> str:
        cells = [
            [point["kind"], f"{point['c']:g}", *(f"{error:.1e}" for error in point["errors"])]
            for point in points
        ]
        return table(["kind", "c", *(f"after {count}" for count in self.iterations)], cells)


class _Branch(nn.Module):
    """A layer without its mask."""

    def __init__(self, layer: BoundedLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.all_tokens(x)
