"""Additive attention scores in three forms: time, memory, and that they agree.

    python -m benchmarks.additive_attention [--length 128 --batch 32 --heads 8 --width 256]

`textbook` is the definition, `pairs` has the absolute differences spelled out, `cdist` is what OLSA
uses. Times are medians of interleaved repeats of one process, memory is the peak of a fresh process
for each form above what the inputs need.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from layers.attention.additive import Form, additive_scores

FORMS: tuple[Form, ...] = ("textbook", "pairs", "cdist")
MIB = 2**20


class Shape(NamedTuple):
    """Sizes of one attention layer and where it runs."""

    batch: int
    heads: int
    length: int
    width: int
    device: str


class Row(NamedTuple):
    """What was measured of one form."""

    form: Form
    forward_ms: float
    backward_ms: float
    peak_mib: float


def inputs(shape: Shape) -> list[Tensor]:
    """Queries, keys and score vectors."""
    torch.manual_seed(0)
    size = shape.width // shape.heads
    tokens = (shape.batch, shape.heads, shape.length, size)
    return [
        torch.randn(sizes, device=shape.device, requires_grad=True)
        for sizes in (tokens, tokens, (shape.heads, size))
    ]


def clock(device: str) -> float:
    """Seconds, once the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def once(form: Form, tensors: list[Tensor], device: str) -> tuple[float, float]:
    """Seconds of one forward and one backward pass, softmax included."""
    query, key, weight = tensors
    start = clock(device)
    weights = additive_scores(query, key, weight, form=form).softmax(dim=-1)
    middle = clock(device)
    torch.autograd.grad(weights.square().sum(), tensors)
    return middle - start, clock(device) - middle


def times(shape: Shape, repeats: int) -> dict[Form, tuple[float, float]]:
    """Median milliseconds of each form; the forms take turns, so that all see the same machine."""
    tensors = inputs(shape)
    seen: dict[Form, list[tuple[float, float]]] = {form: [] for form in FORMS}
    for repeat in range(repeats + 1):
        for form in FORMS:
            seconds = once(form, tensors, shape.device)
            if repeat:  # the first pays for start-up
                seen[form].append(seconds)
    return {
        form: (
            1e3 * statistics.median(forward for forward, _ in values),
            1e3 * statistics.median(backward for _, backward in values),
        )
        for form, values in seen.items()
    }


def resident() -> float:
    """Largest memory of this process so far in bytes; macOS counts in bytes, Linux in KiB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def peak(form: Form, shape: Shape) -> float:
    """MiB that one forward and backward pass needs in this process."""
    small = shape._replace(batch=1, length=4)
    once(form, inputs(small), shape.device)  # kernels and thread pools are no memory of the form
    tensors = inputs(shape)
    if shape.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = float(torch.cuda.memory_allocated())
        once(form, tensors, shape.device)
        return (torch.cuda.max_memory_allocated() - before) / MIB
    before = resident()
    once(form, tensors, shape.device)
    return (resident() - before) / MIB


def peak_in_fresh_process(form: Form, shape: Shape, threads: int) -> float:
    """The same in a process that has run nothing else: the peak of a process never sinks."""
    sizes = [
        part
        for name in ("batch", "heads", "length", "width", "device")
        for part in (f"--{name}", str(getattr(shape, name)))
    ]
    command = [sys.executable, "-m", "benchmarks.additive_attention", "--peak_of", form, *sizes]
    run = subprocess.run(
        [*command, "--threads", str(threads)], check=True, capture_output=True, text=True
    )
    return float(run.stdout)


def disagreement(shape: Shape) -> dict[Form, float]:
    """Largest error of weights and gradients, relative to the largest value, against float64."""
    shape = shape._replace(batch=min(shape.batch, 2), length=min(shape.length, 32))
    tensors = inputs(shape)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]

    def run(form: Form, at: list[Tensor]) -> list[Tensor]:
        query, key, weight = at
        weights = additive_scores(query, key, weight, form=form).softmax(dim=-1)
        return [weights, *torch.autograd.grad(weights.square().sum(), at)]

    expected = run("textbook", exact)
    return {
        form: max(
            float((found.double() - true).detach().abs().max() / true.detach().abs().max())
            for found, true in zip(run(form, tensors), expected, strict=True)
        )
        for form in FORMS
    }


def table(rows: list[Row], errors: dict[Form, float]) -> str:
    """Markdown, with ratios to the textbook form."""
    base = rows[0]
    lines = [
        "| form | forward ms | backward ms | both, ratio | peak MiB | ratio | largest error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        both = (row.forward_ms + row.backward_ms) / (base.forward_ms + base.backward_ms)
        lines.append(
            f"| {row.form} | {row.forward_ms:.1f} | {row.backward_ms:.1f} | {both:.3f} "
            f"| {row.peak_mib:.0f} | {row.peak_mib / base.peak_mib:.3f} | {errors[row.form]:.0e} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, check, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--length", type=int, default=128, help="tokens")
    parser.add_argument("--batch", type=int, default=32, help="texts")
    parser.add_argument("--heads", type=int, default=8, help="attention heads")
    parser.add_argument("--width", type=int, default=256, help="token width")
    parser.add_argument("--repeats", type=int, default=5, help="timed passes of each form")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    parser.add_argument("--peak_of", choices=FORMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    shape = Shape(given.batch, given.heads, given.length, given.width, given.device)
    if given.peak_of is not None:
        print(peak(given.peak_of, shape))
        return
    errors = disagreement(shape)
    if max(errors.values()) > 1e-4:
        msg = f"got forms that disagree: {errors}, expected relative errors below 1e-4"
        raise RuntimeError(msg)
    memory = {form: peak_in_fresh_process(form, shape, given.threads) for form in FORMS}
    rows = [Row(form, *ms, memory[form]) for form, ms in times(shape, given.repeats).items()]
    where = torch.cuda.get_device_name() if given.device == "cuda" else "CPU"
    print(f"{shape}, {given.threads} thread(s), torch {torch.__version__}, {where}\n")
    print(table(rows, errors))
    if given.json is not None:
        content = {
            "shape": shape._asdict(),
            "threads": given.threads,
            "torch": torch.__version__,
            "device": where,
            "forms": {row.form: {**row._asdict(), "error": errors[row.form]} for row in rows},
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
