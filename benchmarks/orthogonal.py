"""The parametrisations of orthogonal matrices: time, and how orthogonal the result is.

    python -m benchmarks.orthogonal [--sizes 256 768] [--count 3] [--json FILE]

Starts are those of a new layer, then moved by a step of training noise, since a fresh start
flatters methods that begin at an orthogonal matrix.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import torch

from layers.orthogonal import METHODS, Method, OrthogonalLinear


class Row(NamedTuple):
    """What was measured of one method at one size; singular values in float64."""

    method: Method
    size: int
    forward_ms: float
    backward_ms: float
    error: float
    smallest: float
    largest: float


def layer(method: Method, size: int, count: int, noise: float) -> OrthogonalLinear:
    """A layer whose parameter has moved by `noise` relative to its size."""
    torch.manual_seed(0)
    made = OrthogonalLinear(size, size, count=count, method=method)
    with torch.no_grad():
        scale = noise * made.raw.square().mean().sqrt()
        made.raw.add_(scale * torch.randn_like(made.raw))
    return made


def once(made: OrthogonalLinear) -> tuple[float, float]:
    """Seconds to make the weights, and to go back through that."""
    start = time.perf_counter()
    weight = made.weight()
    middle = time.perf_counter()
    torch.autograd.grad(weight.square().sum(), made.raw)
    return middle - start, time.perf_counter() - middle


def measure(size: int, *, count: int, repeats: int, noise: float) -> list[Row]:
    """One row for each method; the methods take turns."""
    layers = {method: layer(method, size, count, noise) for method in METHODS}
    seen: dict[Method, list[tuple[float, float]]] = {method: [] for method in METHODS}
    for repeat in range(repeats + 1):
        for method, made in layers.items():
            seconds = once(made)
            if repeat:  # the first pays for start-up
                seen[method].append(seconds)
    rows = []
    for method, made in layers.items():
        weight = made.weight().detach().double()
        gram = weight @ weight.mT - torch.eye(size, dtype=torch.float64)
        singular = torch.linalg.svdvals(weight)
        rows.append(
            Row(
                method,
                size,
                1e3 * statistics.median(forward for forward, _ in seen[method]),
                1e3 * statistics.median(backward for _, backward in seen[method]),
                float(torch.linalg.matrix_norm(gram).amax()),
                float(singular.min()) - 1,
                float(singular.max()) - 1,
            )
        )
    return rows


def table(rows: list[Row]) -> str:
    """Markdown, with the ratio to Cayley at the same size."""
    lines = [
        "| n | method | forward ms | backward ms | both, ratio | ‖WWᵀ - I‖_F | σ_min - 1 "
        "| σ_max - 1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = {row.size: row.forward_ms + row.backward_ms for row in rows if row.method == "cayley"}
    for row in rows:
        ratio = (row.forward_ms + row.backward_ms) / base[row.size]
        lines.append(
            f"| {row.size} | {row.method} | {row.forward_ms:.1f} | {row.backward_ms:.1f} "
            f"| {ratio:.2f} | {row.error:.1e} | {row.smallest:.1e} | {row.largest:.1e} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 768], help="widths n")
    parser.add_argument("--count", type=int, default=3, help="matrices at once; 3 for Q, K and V")
    parser.add_argument("--repeats", type=int, default=5, help="timed passes of each method")
    parser.add_argument("--noise", type=float, default=0.1, help="relative step from the start")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = [
        row
        for size in given.sizes
        for row in measure(size, count=given.count, repeats=given.repeats, noise=given.noise)
    ]
    print(f"{given.count} matrices, {given.threads} thread(s), torch {torch.__version__}\n")
    print(table(rows))
    if given.json is not None:
        content = {
            "count": given.count,
            "noise": given.noise,
            "threads": given.threads,
            "torch": torch.__version__,
            "rows": [row._asdict() for row in rows],
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
