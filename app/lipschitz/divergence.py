"""The norm of the Jacobian under ascent: dot-product attention has no bound (Figure 8)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from app.figures.charts import Series, error_bars, save
from app.lipschitz.ascent import Ascent, climb, random_inputs
from app.lipschitz.points import Point, column, measured, write_csv, write_json
from app.lipschitz.subjects import Subject, build, check_kind
from app.lipschitz.trained import described
from layers.norms import Norm
from text import check_range

_SHOWN = 200
"""Steps in a picture, at most."""


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The settings of the figure.

    Attributes:
        kinds: attentions, one line each.
        width: D.
        heads: H.
        tokens: N.
        norm: `2` or `inf`.
        ascent: its starts, steps and rate; it goes on to the last step.
        seed: of weights and starts.
        runs_dir: directory of all runs.
    """

    kinds: Sequence[str]
    width: int
    heads: int
    tokens: int
    norm: Norm
    ascent: Ascent
    seed: int = 0
    runs_dir: str = "runs"

    def __post_init__(self) -> None:
        """Checks the settings."""
        for kind in self.kinds:
            check_kind(kind)
        check_range({"tokens": self.tokens}, least=2)
        check_range({"kinds": len(self.kinds)}, least=1)


def line(given: Divergence, device: torch.device, kind: str) -> Point:
    """Climbs with one attention.

    Args:
        given: the settings.
        device: where it is computed.
        kind: name of the attention.
    """
    layer = build(_subject(given, kind), given.tokens, given.norm, device)
    seeds = [given.seed * 10**6 + start for start in range(given.ascent.starts)]
    x = random_inputs(seeds, given.tokens, given.width).to(device)
    path = climb(layer, x, given.norm, given.ascent).path
    return {"kind": kind, "proven": layer.proven, "path": path}


def run(given: Divergence, folder: Path, device: torch.device) -> list[str]:
    """Measures all lines, writes figures and pictures, and returns the lines of a table.

    Args:
        given: the settings.
        folder: of the run.
        device: where it is computed.
    """
    for kind in given.kinds:
        build(_subject(given, kind), given.tokens, given.norm, torch.device("cpu"))
    settings = {"experiment": "divergence", **asdict(given)}
    about = described(settings, given.kinds, given.runs_dir)
    points = measured(folder / "points.jsonl", about, given.kinds, partial(line, given, device))
    write_json(folder / "divergence.json", {"settings": about, "lines": points})
    rows = [
        {"kind": one["kind"], "step": step, "norm": norm}
        for one in points
        for step, norm in enumerate(one["path"])
    ]
    write_csv(folder / "divergence.csv", rows)
    every = max(1, given.ascent.steps // _SHOWN)
    series = []
    for one in points:
        bound = one["proven"].get("sound")
        path = one["path"][::every]
        reference = None if bound is None else [bound] * len(path)
        steps = [float(step) for step in range(0, len(one["path"]), every)]
        series.append(Series(name=one["kind"], x=steps, mean=path, reference=reference))
    figure = error_bars(
        series,
        x_label="step",
        y_label=f"norm {given.norm} of the Jacobian",
        title=f"N = {given.tokens}, D = {given.width}, H = {given.heads}",
        reference="proven bound",
        logarithmic="y",
    )
    for ending in ("png", "svg"):
        save(figure, folder / f"divergence.{ending}", "app lipschitz divergence")
    width = column([one["kind"] for one in points])
    head = f"{'kind':<{width}}{'first step':>12}{'largest':>12}{'proven':>12}"
    return [
        head,
        *(
            f"{one['kind']:<{width}}{one['path'][0]:>12.4g}{max(one['path']):>12.4g}"
            + (f"{one['proven']['sound']:>12.4g}" if one["proven"] else f"{'none':>12}")
            for one in points
        ),
    ]


def _subject(given: Divergence, kind: str) -> Subject:
    sizes = {"width": given.width, "heads": given.heads}
    return Subject(kind=kind, weights="random", seed=given.seed, runs_dir=given.runs_dir, **sizes)
