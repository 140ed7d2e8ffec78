"""Fixed-point inversion of x + c f(x), with f an attention (Kim et al., Figures 3, 5 and 6)."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from app.figures.charts import Series, error_bars, save
from app.lipschitz.points import Point, column, measured, write_csv, write_json
from app.lipschitz.subjects import Subject, build, check_kind
from app.lipschitz.trained import described
from layers.invertible import Inversion, InvertibleResidual
from text import check_range


@dataclass(frozen=True, kw_only=True)
class Reconstruction:
    """The settings of the figure.

    Attributes:
        kinds: attentions, with weights as a layer begins; `run:NAME` has those of a run.
        factors: the c of x + c f(x), each above 0 and below 1.
        width: D.
        heads: H.
        tokens: N.
        texts: inputs, of which the first token is 0 and all other numbers are from U[-R, R].
        input_range: R.
        iterations: evaluations of f, rising.
        seed: of weights and inputs.
        runs_dir: directory of all runs.
    """

    kinds: Sequence[str]
    factors: Sequence[float]
    width: int = 64
    heads: int = 8
    tokens: int = 64
    texts: int = 128
    input_range: float = 10.0
    iterations: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)
    seed: int = 0
    runs_dir: str = "runs"

    def __post_init__(self) -> None:
        """Checks the settings."""
        for kind in self.kinds:
            check_kind(kind)
        for c in self.factors:
            check_range({"factors": c}, above=0, below=1)
        check_range({"tokens": self.tokens}, least=2)
        check_range({"input_range": self.input_range}, above=0)
        counts = {"texts": self.texts, "iterations": min(self.iterations, default=0)}
        lists = {"kinds": len(self.kinds), "factors": len(self.factors)}
        check_range(counts | lists, least=1)
        if list(self.iterations) != sorted(set(self.iterations)):
            msg = f"got iterations={list(self.iterations)}, expected rising numbers"
            raise ValueError(msg)


class _Branch(nn.Module):
    """A layer without its mask."""

    def __init__(self, given: Reconstruction, kind: str, device: torch.device) -> None:
        super().__init__()
        self.layer = build(_subject(given, kind), given.tokens, "inf", device)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.whole(x)


@torch.no_grad()
def line(given: Reconstruction, device: torch.device, at: tuple[str, float]) -> Point:
    """Inverts with one attention and one factor.

    Args:
        given: the settings.
        device: where it is computed.
        at: name of the attention, and c.
    """
    kind, c = at
    generator = torch.Generator().manual_seed(given.seed)
    size = (given.texts, given.tokens, given.width)
    x = (2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1).to(device)
    x *= given.input_range
    x[:, 0] = 0.0
    branch = _Branch(given, kind, device)
    residual = InvertibleResidual(branch, c=c, lipschitz=math.inf)
    y = residual(x)
    errors = []
    for most in given.iterations:
        settings = Inversion(tolerance=1e-300, most=most)
        found = residual.inverse(y, settings=settings, strict=False)
        errors.append(float((found.x - x).abs().amax()))
    return {"kind": kind, "c": c, "errors": errors}


def run(given: Reconstruction, folder: Path, device: torch.device) -> list[str]:
    """Measures all lines, writes figures and pictures, and returns the lines of a table.

    Args:
        given: the settings.
        folder: of the run.
        device: where it is computed.
    """
    for kind in given.kinds:
        build(_subject(given, kind), given.tokens, "inf", torch.device("cpu"))
    settings = {"experiment": "invertibility", **asdict(given)}
    about = described(settings, given.kinds, given.runs_dir)
    keys = [(kind, c) for kind in given.kinds for c in given.factors]
    points = measured(folder / "points.jsonl", about, keys, partial(line, given, device))
    write_json(folder / "invertibility.json", {"settings": about, "lines": points})
    rows = [
        {"kind": one["kind"], "c": one["c"], "evaluations": count, "error": error}
        for one in points
        for count, error in zip(given.iterations, one["errors"], strict=True)
    ]
    write_csv(folder / "invertibility.csv", rows)
    series = [
        Series(
            name=f"{one['kind']}, c = {one['c']:g}",
            x=[float(count) for count in given.iterations],
            # A logarithmic axis has no 0.
            mean=[max(error, 1e-17) for error in one["errors"]],
        )
        for one in points
    ]
    figure = error_bars(
        series,
        x_label="evaluations of f",
        y_label="largest error of a reconstruction",
        title=f"N = {given.tokens}, D = {given.width}, H = {given.heads}",
        logarithmic="xy",
    )
    for ending in ("png", "svg"):
        save(figure, folder / f"invertibility.{ending}", "app lipschitz invertibility")
    width = column([one["kind"] for one in points])
    head = f"{'kind':<{width}}{'c':>6}" + "".join(f"{count:>10}" for count in given.iterations)
    return [
        f"{head}   evaluations",
        *(
            f"{one['kind']:<{width}}{one['c']:>6g}"
            + "".join(f"{error:>10.1e}" for error in one["errors"])
            for one in points
        ),
    ]


def _subject(given: Reconstruction, kind: str) -> Subject:
    sizes = {"width": given.width, "heads": given.heads}
    return Subject(kind=kind, weights="random", seed=given.seed, runs_dir=given.runs_dir, **sizes)
