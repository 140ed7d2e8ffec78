"""Time of a layer, forward and back, over dot-product attention (Table 1 of Kim et al.)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

import torch
from torch import nn

from benchmarks.command import table
from benchmarks.lipschitz.experiment import AttentionExperiment, Pictures, Point, Points, Rows
from benchmarks.lipschitz.subjects import kinds_option, option
from benchmarks.timing import time_work
from layers.attention.mechanisms import KINDS, Attention, Layer, build_attention
from measure.charts import Bars, grouped_bars
from text import check_choice, check_range

BASE = "scaled_dot_product"


@dataclass(frozen=True, kw_only=True)
class Runtime(AttentionExperiment):
    """Seconds of attentions, and of `scaled_dot_product`, in rounds that take them in turn."""

    name = "runtime"
    text = "time of a layer, forward and back"
    points_name = "rounds"
    kinds: Sequence[str] = kinds_option("l2", "l2_tied", "l2_contractive", names=tuple(KINDS))
    width: int = option(512, "D, numbers of a token")
    tokens: int = option(256, "N, tokens of a text")
    texts: int = option(8, "texts of a batch, without padding")
    rounds: int = option(20, "times that each is measured")

    def __post_init__(self) -> None:
        for kind in self.kinds:
            check_choice("kind", kind, tuple(KINDS))
        sizes = {"tokens": self.tokens, "texts": self.texts, "rounds": self.rounds}
        check_range({"kinds": len(self.kinds), **sizes}, least=1)

    def subject(self) -> dict[str, Any]:
        threads = torch.get_num_threads()
        return {**super().subject(), "device": str(self.device), "threads": threads}

    @cached_property
    def layers(self) -> dict[str, nn.Module]:
        """The attentions by name."""
        settings = Layer(
            width=self.width, heads=self.heads, dropout=0.0, length=self.tokens, early=False
        )
        torch.manual_seed(self.seed)
        return {
            kind: build_attention(Attention(kind=kind), settings).to(self.device)
            for kind in dict.fromkeys((BASE, *self.kinds))
        }

    def prepare(self) -> None:
        if self.device.index is not None:
            torch.cuda.set_device(self.device)  # `time_work` waits for the current device
        self.measure(0)  # the first call of all is slower

    def keys(self) -> Sequence[int]:
        return range(self.rounds)

    def measure(self, key: int) -> Point:
        """Measure each attention once, in an order that changes from round to round."""
        generator = torch.Generator().manual_seed(key)
        size = (self.texts, self.tokens, self.width)
        x = torch.randn(size, generator=generator).to(self.device).requires_grad_()
        mask = torch.ones(size[:2], dtype=torch.bool, device=self.device)

        def seconds(layer: nn.Module) -> float:
            # Of the processor on a CPU, which other programs do not change.
            return time_work(
                lambda: torch.autograd.backward(layer(x, mask).sum()), self.device.type
            ).compared

        names = list(self.layers)
        # Each attention comes first in some round.
        first = key % len(names)
        times = {name: seconds(self.layers[name]) for name in names[first:] + names[:first]}
        return {"round": key, "seconds": {name: times[name] for name in names}}

    def rows(self, points: Points) -> list[dict[str, Any]]:
        rows = []
        for kind in self.layers:
            # Of the same round, so that the load of the machine cancels.
            ratios = sorted(point["seconds"][kind] / point["seconds"][BASE] for point in points)
            rows.append(
                {
                    "kind": kind,
                    "milliseconds": 1000 * median(point["seconds"][kind] for point in points),
                    "ratio": median(ratios),
                    "low": ratios[len(ratios) // 4],
                    "high": ratios[3 * len(ratios) // 4],
                }
            )
        return rows

    def summary(self, rows: Rows) -> dict[str, Any]:
        return {"rows": rows}

    def figures(self, points: Points, rows: Rows) -> Pictures:
        bars = Bars(
            name="median, and quartiles",
            height=[row["ratio"] for row in rows],
            low=[row["low"] for row in rows],
            high=[row["high"] for row in rows],
        )
        figure = grouped_bars(
            [row["kind"] for row in rows],
            [bars],
            y_label="time over that of dot-product",
            title=f"{self.title}, forward and back",
            line=1.0,
        )
        yield self.name, figure

    def table(self, points: Points, rows: Rows) -> str:
        cells = [
            [row["kind"], f"{row['milliseconds']:.2f}", *(row[k] for k in ("ratio", "low", "high"))]
            for row in rows
        ]
        return table(["kind", "ms", "ratio", "first quartile", "third quartile"], cells)
