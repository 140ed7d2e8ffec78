"""The parametrisations of orthogonal matrices: time, and how orthogonal the result is.

    python -m benchmarks.orthogonal_cost [--sizes 256 768] [--count 3] [--out FILE]

Starts are those of a new layer, then moved by a step of training noise, since a fresh start
flatters methods that begin at an orthogonal matrix. Singular values are computed in float64.
"""

from argparse import Namespace
from typing import Any

import torch

from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import forward_and_backward, medians, rounds
from layers.orthogonal import METHODS, Method, OrthogonalLinear


def layer(method: Method, size: int, count: int, noise: float) -> OrthogonalLinear:
    """Return a layer whose parameter has moved by `noise` relative to its size."""
    torch.manual_seed(0)
    linear = OrthogonalLinear(size, size, count=count, method=method)
    with torch.no_grad():
        # Away from the start, where some methods converge at once.
        scale = noise * linear.raw.square().mean().sqrt()
        linear.raw.add_(scale * torch.randn_like(linear.raw))
    return linear


def measure(size: int, options: Namespace) -> list[dict[str, Any]]:
    """Return a row for each method at one size."""
    layers = {method: layer(method, size, options.count, options.noise) for method in METHODS}

    def once(method: Method, _: int) -> tuple[float, float]:
        return forward_and_backward(layers[method].weight, [layers[method].raw])

    measurements = rounds(list(layers), once, range(options.repeats + 1))
    rows = []
    for method, linear in layers.items():
        weight = linear.weight().detach().double()
        # Float64: the error of float32 orthogonality is what is measured.
        gram = weight @ weight.mT - torch.eye(size, dtype=torch.float64)
        # Singular values of 1 would mean exactly orthogonal.
        singular = torch.linalg.svdvals(weight)
        forward, backward = medians(measurements[method])
        rows.append(
            {
                "method": method,
                "size": size,
                "forward_ms": forward,
                "backward_ms": backward,
                "error": float(torch.linalg.matrix_norm(gram).amax()),
                "smallest": float(singular.min()) - 1,
                "largest": float(singular.max()) - 1,
            }
        )
    return rows


def main() -> None:
    """Measure and print; ratios are to Cayley at the same size."""
    parser = command(__doc__, "repeats", "threads", "out")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 768], help="widths n")
    parser.add_argument("--count", type=int, default=3, help="matrices at once; 3 for Q, K and V")
    parser.add_argument("--noise", type=float, default=0.1, help="relative step from the start")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [row for size in options.sizes for row in measure(size, options)]
    setup = settings(options, "count", "noise", "threads")
    both = [row["forward_ms"] + row["backward_ms"] for row in rows]
    base = {
        row["size"]: ms for row, ms in zip(rows, both, strict=True) if row["method"] == "cayley"
    }
    head = ["n", "method", "forward ms", "backward ms", "both, ratio", "‖WWᵀ - I‖_F"]
    cells = [
        [
            *(row["size"], row["method"], f"{row['forward_ms']:.1f}", f"{row['backward_ms']:.1f}"),
            f"{ms / base[row['size']]:.2f}",
            *(f"{row[name]:.1e}" for name in ("error", "smallest", "largest")),
        ]
        for row, ms in zip(rows, both, strict=True)
    ]
    print(f"{heading(setup)}\n\n{table([*head, 'σ_min - 1', 'σ_max - 1'], cells)}")
    save(options.out, {"settings": setup, "rows": rows})


if __name__ == "__main__":
    main()
