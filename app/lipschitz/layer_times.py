"""Time of a layer, forward and back, beside dot-product attention (Table 1 of Kim et al.)."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn

from app.figures.charts import Bars, grouped_bars
from app.lipschitz.points import Point, measured, write_csv, write_json
from layers.attention.mechanisms import KINDS, Attention, Layer, build_attention
from text import check_choice, check_range

BASE = "scaled_dot_product"


@dataclass(frozen=True, kw_only=True)
class LayerTimes:
    """The settings of the table.

    Attributes:
        kinds: attentions; `scaled_dot_product` is measured with them.
        width: D.
        heads: H.
        tokens: N.
        texts: of a batch, without padding.
        rounds: times that each is measured, in turn, after one round that does not count.
    """

    kinds: Sequence[str]
    width: int = 512
    heads: int = 8
    tokens: int = 256
    texts: int = 8
    rounds: int = 20

    def __post_init__(self) -> None:
        """Checks the settings."""
        for kind in self.kinds:
            check_choice("kind", kind, tuple(KINDS))
        sizes = {"tokens": self.tokens, "texts": self.texts, "rounds": self.rounds}
        check_range({"kinds": len(self.kinds), **sizes}, least=1)


def _layers(given: LayerTimes, device: torch.device) -> dict[str, nn.Module]:
    place = Layer(
        width=given.width, heads=given.heads, dropout=0.0, length=given.tokens, early=False
    )
    torch.manual_seed(0)
    kinds = dict.fromkeys((BASE, *given.kinds))
    return {kind: build_attention(Attention(kind=kind), place).to(device) for kind in kinds}


def once(
    given: LayerTimes, layers: dict[str, nn.Module], device: torch.device, number: int
) -> Point:
    """Measures each attention once, in an order that changes from round to round.

    Args:
        given: the settings.
        layers: the attentions by name.
        device: where it is computed.
        number: of the round.
    """
    generator = torch.Generator().manual_seed(number)
    size = (given.texts, given.tokens, given.width)
    x = torch.randn(size, generator=generator).to(device).requires_grad_()
    mask = torch.ones(given.texts, given.tokens, dtype=torch.bool, device=device)
    names = list(layers)
    turned = names[number % len(names) :] + names[: number % len(names)]
    seconds = {name: _seconds(layers[name], x, mask) for name in turned}
    return {"round": number, "seconds": {name: seconds[name] for name in names}}


def _seconds(layer: nn.Module, x: torch.Tensor, mask: torch.Tensor) -> float:
    on_gpu = x.device.type == "cuda"
    # Of the processor on a CPU, which other programs do not change.
    clock = time.perf_counter if on_gpu else time.process_time
    if on_gpu:
        torch.cuda.synchronize(x.device)
    begin = clock()
    torch.autograd.backward(layer(x, mask).sum())
    if on_gpu:
        torch.cuda.synchronize(x.device)
    return clock() - begin


def run(given: LayerTimes, folder: Path, device: torch.device) -> list[str]:
    """Measures all rounds, writes figures and pictures, and returns the lines of a table.

    Args:
        given: the settings.
        folder: of the run.
        device: where it is computed.
    """
    layers = _layers(given, device)
    about = {
        "experiment": "runtime",
        **asdict(given),
        "device": str(device),
        "threads": torch.get_num_threads(),
    }
    once(given, layers, device, 0)  # the first call of all is slower
    measure = partial(once, given, layers, device)
    points = measured(folder / "points.jsonl", about, range(given.rounds), measure)
    rows = []
    for kind in layers:
        seconds = [one["seconds"][kind] for one in points]
        ratios = sorted(one["seconds"][kind] / one["seconds"][BASE] for one in points)
        rows.append(
            {
                "kind": kind,
                "milliseconds": 1000 * median(seconds),
                "ratio": median(ratios),
                "low": ratios[len(ratios) // 4],
                "high": ratios[3 * len(ratios) // 4],
            }
        )
    write_json(folder / "runtime.json", {"settings": about, "rounds": points, "rows": rows})
    write_csv(folder / "runtime.csv", rows)
    bars = Bars(
        name="median, and quartiles",
        height=[row["ratio"] for row in rows],
        low=[row["low"] for row in rows],
        high=[row["high"] for row in rows],
    )
    for ending in ("png", "svg"):
        grouped_bars(
            [row["kind"] for row in rows],
            [bars],
            folder / f"runtime.{ending}",
            y_label="time over that of dot-product",
            title=f"N = {given.tokens}, D = {given.width}, H = {given.heads}, forward and back",
            line=1.0,
        )
    return [
        f"{'kind':<24}{'ms':>10}{'ratio':>8}   quartiles",
        *(
            f"{row['kind']:<24}{row['milliseconds']:>10.2f}{row['ratio']:>8.3f}"
            f"   {row['low']:.3f} ... {row['high']:.3f}"
            for row in rows
        ),
    ]
