"""The numbers that attentions put out, and losses while training (Kim et al., Figures 10, 11)."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from app.figures.charts import (
    COLOURS,
    DASHES,
    Series,
    drawing,
    error_bars,
    legend_above,
    logarithmic_axis,
    save,
    shown,
)
from app.lipschitz.points import Point, column, measured, write_csv, write_json
from app.lipschitz.subjects import Subject, build, check_kind
from app.lipschitz.trained import described
from app.runs.curves import read_curve
from app.runs.run_directory import RunDirectory
from text import check_range

_LOSS = "train/loss"
_SHOWN = 200
"""Points of a curve in a picture, at most."""


@dataclass(frozen=True, kw_only=True)
class Stability:
    """The settings of the figures.

    Attributes:
        kinds: attentions, with weights as a layer begins; `run:NAME` has those of a run.
        curves: names of runs whose training losses are drawn.
        width: D.
        heads: H.
        tokens: N.
        texts: inputs, of which the first token is 0 and all other numbers are from U[-R, R].
        input_range: R.
        bins: bars of a histogram.
        seed: of weights and inputs.
        runs_dir: directory of all runs.
    """

    kinds: Sequence[str]
    curves: Sequence[str] = ()
    width: int = 64
    heads: int = 8
    tokens: int = 64
    texts: int = 128
    input_range: float = 10.0
    bins: int = 60
    seed: int = 0
    runs_dir: str = "runs"

    def __post_init__(self) -> None:
        """Checks the settings."""
        for kind in self.kinds:
            check_kind(kind)
        check_range({"tokens": self.tokens}, least=2)
        check_range({"input_range": self.input_range}, above=0)
        sizes = {"texts": self.texts, "bins": self.bins, "kinds": len(self.kinds)}
        check_range(sizes, least=1)


def inputs(given: Stability) -> torch.Tensor:
    """`[texts, N, D]` float64 inputs."""
    generator = torch.Generator().manual_seed(given.seed)
    size = (given.texts, given.tokens, given.width)
    x = given.input_range * (2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1)
    x[:, 0] = 0.0
    return x


@torch.no_grad()
def line(given: Stability, device: torch.device, kind: str) -> Point:
    """Describes the outputs of one attention.

    Args:
        given: the settings.
        device: where it is computed.
        kind: name of the attention, or a run.

    Returns:
        Standard deviations and largest magnitudes of inputs and outputs, and the histogram of the
        outputs over `bins` equal parts of their range.
    """
    x = inputs(given).to(device)
    y = build(_subject(given, kind), given.tokens, "inf", device).whole(x).cpu()
    largest = float(y.abs().amax())
    counts = torch.histc(y, given.bins, -largest, largest)
    return {
        "kind": kind,
        "input_sd": float(x.std()),
        "input_largest": float(x.abs().amax()),
        "output_sd": float(y.std()),
        "output_largest": largest,
        "counts": [int(count) for count in counts],
    }


def run(given: Stability, folder: Path, device: torch.device) -> list[str]:
    """Measures all lines, writes figures and pictures, and returns the lines of a table.

    Args:
        given: the settings.
        folder: of the run.
        device: where it is computed.
    """
    for kind in given.kinds:
        build(_subject(given, kind), given.tokens, "inf", torch.device("cpu"))
    curves = [
        {"run": name, **read_curve(RunDirectory(Path(given.runs_dir) / name), _LOSS)}
        for name in given.curves
    ]
    settings = {"experiment": "stability", **asdict(given)}
    del settings["curves"]  # they are read again each time
    about = described(settings, given.kinds, given.runs_dir)
    points = measured(folder / "points.jsonl", about, given.kinds, partial(line, given, device))
    content = {"settings": about, "lines": points, "curves": curves}
    write_json(folder / "stability.json", content)
    write_csv(
        folder / "stability.csv", [{k: v for k, v in p.items() if k != "counts"} for p in points]
    )
    for ending in ("png", "svg"):
        _draw_outputs(given, points, folder / f"stability.{ending}")
        if curves:
            _draw_curves(curves, folder / f"stability_curves.{ending}")
    width = column([one["kind"] for one in points])
    head = f"{'kind':<{width}}{'input sd':>12}{'output sd':>12}{'input max':>12}{'output max':>12}"
    names = ("input_sd", "output_sd", "input_largest", "output_largest")
    lines = [head] + [
        f"{one['kind']:<{width}}" + "".join(f"{one[name]:>12.4g}" for name in names)
        for one in points
    ]
    if curves:
        lines += ["", f"{'training loss of':<40}{'first':>10}{'least':>10}{'last':>10}"]
        lines += [_curve_line(one) for one in curves]
    return lines


def _curve_line(one: dict[str, Any]) -> str:
    finite = [value for value in one["values"] if math.isfinite(value)]
    numbers = (one["values"][0], min(finite, default=math.nan), one["values"][-1])
    return f"{one['run']:<40}" + "".join(f"{number:>10.4f}" for number in numbers)


def _draw_outputs(given: Stability, points: Sequence[Point], path: Path) -> None:
    numbers = given.texts * given.tokens * given.width
    with drawing(path, "app lipschitz stability") as figure:
        axes = figure.subplots()
        level = 1 / (2 * given.input_range)
        ends = [-given.input_range, given.input_range]
        axes.plot(ends, [level, level], color="#222222", linewidth=1.0, label="inputs")
        for i, one in enumerate(points):
            width = 2 * one["output_largest"] / given.bins
            edges = [-one["output_largest"] + width * k for k in range(given.bins + 1)]
            heights = [count / (numbers * width) for count in one["counts"]]
            axes.stairs(
                heights,
                edges,
                color=COLOURS[i % len(COLOURS)],
                linestyle=DASHES[i % len(DASHES)],
                label=shown(f"outputs, {one['kind']}"),
            )
        axes.set(xlabel="number", ylabel="density")
        logarithmic_axis(axes, "y")
        axes.set_title(f"N = {given.tokens}, D = {given.width}, H = {given.heads}")
        legend_above(figure, [f"outputs, {one['kind']}" for one in points])


def _draw_curves(curves: Sequence[dict[str, Any]], path: Path) -> None:
    series = []
    for one in curves:
        every = max(1, len(one["steps"]) // _SHOWN)
        pairs = list(zip(one["steps"], one["values"], strict=True))[::every]
        finite = [(float(step), value) for step, value in pairs if math.isfinite(value)]
        steps, values = zip(*finite, strict=True)
        series.append(Series(name=one["run"], x=steps, mean=values))
    figure = error_bars(series, x_label="step", y_label="training loss")
    for drawn in figure.axes[0].get_lines():
        drawn.set_marker("")
    save(figure, path, "app lipschitz stability")


def _subject(given: Stability, kind: str) -> Subject:
    sizes = {"width": given.width, "heads": given.heads}
    return Subject(kind=kind, weights="random", seed=given.seed, runs_dir=given.runs_dir, **sizes)
