"""The norm of the Jacobian under ascent: dot-product attention has no bound (Figure 8)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.command import table
from benchmarks.lipschitz.ascent import Ascent, climb, random_inputs
from benchmarks.lipschitz.experiment import AttentionExperiment, Pictures, Point, Points, Rows
from benchmarks.lipschitz.subjects import BoundedLayer, kinds_option, option
from layers.norms import Norm
from measure.charts import Series, error_bars

_DRAWN = 200
"""Steps in a picture, at most."""


@dataclass(frozen=True, kw_only=True)
class Divergence(AttentionExperiment):
    """The largest norm at each step of the ascent, for each attention."""

    name = "divergence"
    text = "ascent on the norm of the Jacobian"
    kinds: Sequence[str] = kinds_option("scaled_dot_product", "l2", "l2_tied")
    norm: Norm = option("inf", "2 or inf", "NORM")
    ascent: Ascent = Ascent(starts=8, steps=500)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Where nothing bounds the norm, the ascent must not end before its last step.
        object.__setattr__(self, "ascent", replace(self.ascent, patience=self.ascent.steps))

    def build(
        self, kind: str, norm: Norm = "inf", device: torch.device | None = None
    ) -> BoundedLayer:
        return super().build(kind, self.norm, device)

    def measure(self, key: str) -> Point:
        """Climb with one attention."""
        layer = self.build(key)
        seeds = [self.seed * 10**6 + start for start in range(self.ascent.starts)]
        x = random_inputs(seeds, self.tokens, self.width).to(self.device)
        path = climb(layer, x, self.norm, self.ascent).path
        return {"kind": key, "proven": layer.bounds, "path": path}

    def rows(self, points: Points) -> list[dict[str, Any]]:
        return [
            {"kind": point["kind"], "step": step, "norm": norm}
            for point in points
            for step, norm in enumerate(point["path"])
        ]

    def figures(self, points: Points, rows: Rows) -> Pictures:
        # A picture cannot show more points than this.
        stride = max(1, self.ascent.steps // _DRAWN)
        series = []
        for point in points:
            path, bound = point["path"][::stride], point["proven"].get("sound")
            reference = None if bound is None else [bound] * len(path)
            steps = [float(step) for step in range(0, len(point["path"]), stride)]
            series.append(Series(name=point["kind"], x=steps, mean=path, reference=reference))
        figure = error_bars(
            series,
            x_label="step",
            y_label=f"norm {self.norm} of the Jacobian",
            title=self.title,
            reference="proven bound",
            logarithmic="y",
        )
        yield self.name, figure

    def table(self, points: Points, rows: Rows) -> str:
        cells = []
        for point in points:
            path, bound = point["path"], point["proven"].get("sound")
            proven = "none" if bound is None else f"{bound:.4g}"
            cells.append([point["kind"], f"{path[0]:.4g}", f"{max(path):.4g}", proven])
        return table(["kind", "first step", "largest", "proven"], cells)
