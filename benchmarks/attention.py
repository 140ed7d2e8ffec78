"""Time and memory of a layer of each self-attention by the length of a text, with exponents.

    python -m benchmarks.attention --out attention.json --figure attention.png [--device cuda]
        [--kinds reva revcos] [--lengths 64 ... 4096] [--check]

One layer at the thesis's size (width 300, 5 heads), without the rest of its block; an eighth of
the tokens is padding. `forward` is a pass without gradients, `step` a pass forward and back, with
the gradients of the tokens and the weights. Times are medians of rounds in which all kinds take
turns: of the processor on a CPU, of the wall clock on a GPU. Memory is the peak above the memory
before, with the tokens, but without the weights' own: of torch's allocator on a GPU; on a CPU
of the process as the system counts it, in a fresh process for each kind and pass, which takes
longer and longer texts. It includes the work space of kernels, and is at least a page.

An exponent p of N^p is the slope of log time (or memory) over log N at the upper half of the
lengths, where costs that do not depend on N are small. Kinds that are linear should have at most
1.15. A length is left out (null) where it would take more than `--most_s` or `--most_mib` by the
length before it. `transnormer_*` are left out: their layers are `diag` and `norm_*`.
"""

import math
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import linear_regression
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import MIB, in_fresh_process, median_seconds, resident
from layers.attention.mechanisms import KINDS, Attention, Layer, build_attention
from measure.charts import drawing, label_lines, logarithmic_axis, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINEAR = (
    *("linformer", "sima_l1", "sima_l2", "soft_linear", "cosformer", "cosformer_no_relu"),
    *("diag", "norm_layer_norm", "norm_rms", "revcos"),
)
"""Kinds whose time and memory should be linear in N."""
MEASURED = tuple(kind for kind in KINDS if not kind.startswith("transnormer"))
PASSES = ("forward", "step")
LENGTHS = tuple(64 * 2**i for i in range(7))
LIMIT = 1.15
"""Largest exponent of a kind that is linear."""
Way = tuple[str, str]


def layer(kind: str, length: int, options: Namespace) -> nn.Module:
    """Return the attention of a layer for texts of `length` tokens."""
    torch.manual_seed(0)
    at = Layer(width=options.width, heads=options.heads, dropout=0.0, length=length, early=True)
    return build_attention(Attention(kind=kind, mixtures=min(64, length)), at).to(options.device)


def tokens(length: int, options: Namespace) -> tuple[Tensor, Tensor]:
    """Return random tokens `[B, N, d]` and their mask `[B, N]`."""
    torch.manual_seed(1)
    x = torch.randn(options.batch, length, options.width, device=options.device)
    mask = torch.arange(length, device=options.device) < length - length // 8
    return x, mask.expand(options.batch, length)


def run(module: nn.Module, x: Tensor, mask: Tensor, kind_of_pass: str) -> None:
    """Do one pass; a step adds to no gradients."""
    if kind_of_pass == "forward":
        with torch.no_grad():
            module(x, mask)
        return
    # A new leaf: gradients of the tokens are part of a step.
    x = x.detach().requires_grad_()
    torch.autograd.grad(module(x, mask).square().sum(), [x, *module.parameters()])


def times(ways: Sequence[Way], length: int, options: Namespace) -> dict[Way, float]:
    """Return the milliseconds of each kind and pass."""
    x, mask = tokens(length, options)
    modules = {kind: layer(kind, length, options).eval() for kind, _ in ways}

    work = {way: partial(run, modules[way[0]], x, mask, way[1]) for way in ways}
    seconds = median_seconds(work, options.repeats, options.device, alternate=True)
    return {way: 1e3 * each for way, each in seconds.items()}


def peaks(way: Way, lengths: Sequence[int], options: Namespace) -> list[float]:
    """Return the MiB of one kind and pass for each length, measured in this process."""
    torch.set_num_threads(options.threads)
    mebibytes: list[float] = []
    kind, kind_of_pass = way
    # Kernels and thread pools would be counted as memory of the kind.
    run(layer(kind, 16, options), *tokens(16, options), kind_of_pass)
    with suppress(OSError):  # where the system can forget the peak so far
        Path("/proc/self/clear_refs").write_text("5")
    before = resident()
    for length in lengths:
        module = layer(kind, length, options)
        if options.device == "cuda":
            before = torch.cuda.memory_allocated() / MIB
            torch.cuda.reset_peak_memory_stats()
        # A kind is charged for activations, not for its weights.
        weights = sum(parameter.nbytes for parameter in module.parameters()) / MIB
        run(module, *tokens(length, options), kind_of_pass)
        if options.device == "cuda":
            peak = torch.cuda.max_memory_allocated() / MIB - before
        else:
            # The peak of a process never sinks, but a longer text needs more.
            peak = resident() - before - weights
        mebibytes.append(max(peak, 0.0))
    return mebibytes


def exponent(lengths: Sequence[int], values: Sequence[float | None]) -> float | None:
    """Return the least-squares slope of log values over log lengths at their upper half.

    Lengths rise; the result is None for fewer than two values above 0.
    """
    measured = [(n, v) for n, v in zip(lengths, values, strict=True) if v is not None]
    upper = [(math.log(n), math.log(v)) for n, v in measured[-(len(measured) // 2 + 1) :] if v > 0]
    # Of log value over log length: the p of N^p.
    return linear_regression(*zip(*upper, strict=True)).slope if len(upper) > 1 else None


def measure_all(options: Namespace) -> dict[Way, dict[str, list[float | None]]]:
    """Return the milliseconds and MiB of each kind and pass by length."""
    ways = [(kind, kind_of_pass) for kind in options.kinds for kind_of_pass in PASSES]
    columns: dict[Way, dict[str, list[float | None]]] = {way: {"ms": [], "mib": []} for way in ways}
    for length in options.lengths:
        # Times grow at most fourfold from a length to twice the length.
        able = [way for way in ways if _next(columns[way]["ms"]) <= 1e3 * options.most_s]
        milliseconds = times(able, length, options)
        for way in ways:
            columns[way]["ms"].append(milliseconds.get(way))
        print(f"times at {length} tokens", file=sys.stderr, flush=True)
    for way in ways:
        columns[way]["mib"] = list(_memory(way, columns[way]["ms"], options))
        print(f"memory of {' '.join(way)}", file=sys.stderr, flush=True)
    return columns


def _memory(
    way: Way, milliseconds: Sequence[float | None], options: Namespace
) -> Iterator[float | None]:
    """Yield the MiB of a kind and pass by length; None where a length is left out."""
    lengths = [n for n, ms in zip(options.lengths, milliseconds, strict=True) if ms is not None]
    # Kinds differ in what they hold for each pair of tokens and head; 16 numbers are ample.
    pairs = 16 * 4 * options.batch * options.heads / MIB
    if way[0] not in LINEAR:
        lengths = [length for length in lengths if pairs * length**2 <= options.most_mib]
    fresh = options.device == "cpu"
    values = (
        in_fresh_process(peaks, way, lengths, options) if fresh else peaks(way, lengths, options)
    )
    yield from values
    yield from [None] * (len(options.lengths) - len(values))


def _next(values: Sequence[float | None]) -> float:
    """Return a bound on the next value, at twice the length; infinity after a missing one."""
    if not values:
        return 0.0
    return math.inf if values[-1] is None else 4 * values[-1]


def draw(path: Path, options: Namespace, columns: dict[Way, dict[str, list[float | None]]]) -> None:
    """Draw a step's time and memory, see `measure_all`, over the length; both logarithmic.

    Linear kinds are above, the others below: 18 lines in two axes could not be told apart.
    """
    linear = [kind for kind in options.kinds if kind in LINEAR]
    groups = [group for group in (linear, [k for k in options.kinds if k not in linear]) if group]
    size = (11.0, 3.9 * len(groups))
    with drawing(path, "time and memory of self-attentions", size=size) as figure:
        grid = figure.subplots(len(groups), 2, squeeze=False, sharex=True, sharey="col")
        for group, (of_time, of_memory) in zip(groups, grid, strict=True):
            title = "linear" if group is linear else "not linear"
            _draw_group(of_time, group, "ms", options, columns)
            _draw_group(of_memory, group, "mib", options, columns)
            of_time.set(ylabel=f"training step, ms ({title})")
            of_memory.set(ylabel=f"training step, MiB ({title})")
        for axes in grid[-1]:
            axes.set(xlabel="tokens")
        # After all axes have their limits, which they share.
        for group, row in zip(groups, grid, strict=True):
            for axes in row:
                lines = {str(line.get_label()): line for line in axes.lines}
                label_lines(
                    axes,
                    [
                        (float(lines[kind].get_ydata()[-1]), kind, str(lines[kind].get_color()))
                        for kind in group
                        if kind in lines
                    ],
                )


def _draw_group(
    axes: "Axes",
    kinds: Sequence[str],
    unit: str,
    options: Namespace,
    columns: dict[Way, dict[str, list[float | None]]],
) -> None:
    for number, kind in enumerate(kinds):
        values = columns[kind, "step"][unit]
        # A short text may need less memory than can be seen.
        measured = [(n, v) for n, v in zip(options.lengths, values, strict=True) if v]
        if measured:
            style = points(number, kind) | {"markersize": 4}
            style = {name: style[name] for name in ("color", "marker", "markersize", "label")}
            axes.plot(*zip(*measured, strict=True), **style)
    if axes.lines:
        axes.set_xscale("log", base=2)
        axes.set_xticks(options.lengths, [str(length) for length in options.lengths])
        axes.set_xlim(options.lengths[0], options.lengths[-1])
        logarithmic_axis(axes, "y")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and save."""
    parser = command(__doc__, "device", "threads", "out", "figure", batch=1, repeats=5)
    parser.add_argument("--width", type=int, default=300, help="token width")
    parser.add_argument("--heads", type=int, default=5, help="attention heads")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens of a text")
    parser.add_argument("--kinds", nargs="+", choices=MEASURED, default=MEASURED, help="which")
    parser.add_argument("--most_s", type=float, default=60.0, help="seconds of a pass at most")
    parser.add_argument("--most_mib", type=float, default=16384.0, help="MiB of a pass at most")
    parser.add_argument("--check", action="store_true", help="two short lengths, two kinds")
    options = parser.parse_args(arguments)
    if options.check:
        options.lengths, options.kinds, options.repeats = (32, 64), ("reva", "revcos"), 1
    options.lengths = sorted(options.lengths)
    torch.set_num_threads(options.threads)
    columns = measure_all(options)
    kinds: dict[str, dict[str, dict[str, object]]] = {kind: {} for kind in options.kinds}
    rows, over = [], []
    for (kind, kind_of_pass), values in columns.items():
        slopes = {f"{unit}_exponent": exponent(options.lengths, values[unit]) for unit in values}
        kinds[kind][kind_of_pass] = {**values, **slopes}
        longest = [
            next((v for v in reversed(values[unit]) if v is not None), None) for unit in values
        ]
        cells = ["-" if value is None else f"{value:.2f}" for value in (*longest, *slopes.values())]
        reached = [n for n, ms in zip(options.lengths, values["ms"], strict=True) if ms is not None]
        rows.append([kind, kind_of_pass, str(max(reached, default="-")), *cells])
        if kind in LINEAR and any(slope is not None and slope > LIMIT for slope in slopes.values()):
            over.append(f"{kind} {kind_of_pass}")
    setup = settings(options, "batch", "width", "heads", "threads", "repeats")
    print(f"{heading(setup)}\n")
    head = ["attention", "pass", "tokens", "ms", "MiB", "exponent of time", "of memory"]
    print(table(head, rows))
    names = ", ".join(over) or "none"
    print(f"\nTimes and memory are those of so many tokens. Linear kinds above {LIMIT}: {names}.")
    content = {"settings": setup, "lengths": list(options.lengths), "kinds": kinds}
    save(options.out, {**content, "linear": list(LINEAR), "over": over})
    if options.figure is not None:
        draw(options.figure, options, columns)


if __name__ == "__main__":
    main()
