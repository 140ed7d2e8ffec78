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
    """Returns a layer whose parameter has moved by `noise` relative to its size."""
    torch.manual_seed(0)
    made = OrthogonalLinear(size, size, count=count, method=method)
    with torch.no_grad():
        scale = noise * made.raw.square().mean().sqrt()
        made.raw.add_(scale * torch.randn_like(made.raw))
    return made


def measure(size: int, given: Namespace) -> list[dict[str, Any]]:
    """Returns a row for each method at one size."""
    layers = {method: layer(method, size, given.count, given.noise) for method in METHODS}

    def once(method: Method, _: int) -> tuple[float, float]:
        return forward_and_backward(layers[method].weight, [layers[method].raw])

    seen = rounds(list(layers), once, range(given.repeats + 1))
    rows = []
    for method, made in layers.items():
        weight = made.weight().detach().double()
        gram = weight @ weight.mT - torch.eye(size, dtype=torch.float64)
        singular = torch.linalg.svdvals(weight)
        forward, backward = medians(seen[method])
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
    """Measures and prints; ratios are to Cayley at the same size."""
    parser = command(__doc__, "repeats", "threads", "out")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 768], help="widths n")
    parser.add_argument("--count", type=int, default=3, help="matrices at once; 3 for Q, K and V")
    parser.add_argument("--noise", type=float, default=0.1, help="relative step from the start")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = [row for size in given.sizes for row in measure(size, given)]
    about = settings(given, "count", "noise", "threads")
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
    print(f"{heading(about)}\n\n{table([*head, 'σ_min - 1', 'σ_max - 1'], cells)}")
    save(given.out, {"settings": about, "rows": rows})


if __name__ == "__main__":
    main()
