"""The numbers that attentions put out, and losses while training (Kim et al., Figures 10, 11)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import table
from benchmarks.lipschitz.experiment import OnUniformInputs, Pictures, Point, Points, Rows
from benchmarks.lipschitz.subjects import option, short_names
from measure.charts import (
    COLOURS,
    DASHES,
    Series,
    drawing,
    error_bars,
    legend_above,
    logarithmic_axis,
    plain_label,
)
from run_files.curves import read_curve
from run_files.run_directory import RunDirectory
from text import check_range

_LOSS = "train/loss"
_DRAWN = 200
"""Points of a curve in a picture, at most."""


@dataclass(frozen=True, kw_only=True)
class Stability(OnUniformInputs):
    """Histograms of the outputs of attentions, and training losses of runs."""

    name = "stability"
    text = "outputs of a layer, and losses of runs"
    curves: Sequence[str] = option((), "runs whose training losses are drawn", "RUN")
    bins: int = option(60, "bars of the histogram")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range({"bins": self.bins}, least=1)

    @cached_property
    def losses(self) -> list[dict[str, Any]]:
        """Curves of the training loss: `run`, `steps` and `values`."""
        folders = {name: RunDirectory(Path(self.runs_dir) / name) for name in self.curves}
        return [{"run": name, **read_curve(run, _LOSS)} for name, run in folders.items()]

    def prepare(self) -> None:
        super().prepare()
        _ = self.losses

    def subject(self) -> dict[str, Any]:
        # Curves are read again each time.
        return {name: value for name, value in super().subject().items() if name != "curves"}

    @torch.no_grad()
    def measure(self, key: str) -> Point:
        """Describe the outputs of one attention; `counts` are those of `bins` equal intervals."""
        x = self.inputs()
        y = self.build(key).all_tokens(x).cpu()
        x = x.cpu()
        largest = float(y.abs().amax())
        # A symmetric range, as outputs have both signs.
        counts = torch.histc(y, self.bins, -largest, largest)
        return {
            "kind": key,
            "input_sd": float(x.std()),
            "input_largest": float(x.abs().amax()),
            "output_sd": float(y.std()),
            "output_largest": largest,
            "counts": [int(count) for count in counts],
        }

    def rows(self, points: Points) -> list[dict[str, Any]]:
        return [{k: v for k, v in point.items() if k != "counts"} for point in points]

    def summary(self, rows: Rows) -> dict[str, Any]:
        return {"curves": self.losses}

    def table(self, points: Points, rows: Rows) -> str:
        names = ("input_sd", "output_sd", "input_largest", "output_largest")
        outputs = [[p["kind"], *(f"{p[name]:.4g}" for name in names)] for p in points]
        tables = [table(["kind", "input sd", "output sd", "input max", "output max"], outputs)]
        losses = []
        for curve in self.losses:
            values = curve["values"]
            ends = values[0], min(filter(math.isfinite, values), default=math.nan), values[-1]
            losses.append([curve["run"], *(f"{value:.4f}" for value in ends)])
        if losses:
            tables.append(table(["training loss of", "first", "least", "last"], losses))
        return "\n\n".join(tables)

    def figures(self, points: Points, rows: Rows) -> Pictures:
        numbers = self.texts * self.tokens * self.width
        with drawing(None) as figure:
            axes = figure.subplots()
            # The density of U[-R, R].
            level = 1 / (2 * self.input_range)
            ends = [-self.input_range, self.input_range]
            axes.plot(ends, [level, level], color="#222222", linewidth=1.0, label="inputs")
            labels = [f"outputs, {point['kind']}" for point in points]
            for i, (point, label) in enumerate(zip(points, labels, strict=True)):
                width = 2 * point["output_largest"] / self.bins
                axes.stairs(
                    # Densities: the area is 1 whatever the range.
                    [count / (numbers * width) for count in point["counts"]],
                    [-point["output_largest"] + width * k for k in range(self.bins + 1)],
                    color=COLOURS[i % len(COLOURS)],
                    linestyle=DASHES[i % len(DASHES)],
                    label=plain_label(label),
                )
            axes.set(xlabel="number", ylabel="density")
            logarithmic_axis(axes, "y")
            axes.set_title(self.title)
            legend_above(figure, labels)
            yield self.name, figure  # saved inside the block, in its style
        if not self.losses:
            return
        series = []
        names = short_names([curve["run"] for curve in self.losses])
        for name, curve in zip(names, self.losses, strict=True):
            stride = max(1, len(curve["steps"]) // _DRAWN)
            pairs = list(zip(curve["steps"], curve["values"], strict=True))[::stride]
            finite = [(float(step), value) for step, value in pairs if math.isfinite(value)]
            steps, values = zip(*finite, strict=True)
            series.append(Series(name=name, x=steps, mean=values))
        figure = error_bars(series, x_label="step", y_label="training loss")
        for line in figure.axes[0].get_lines():
            line.set_marker("")
        yield f"{self.name}_curves", figure
