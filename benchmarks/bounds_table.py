"""The tables of Lipschitz bounds in docs/certificates.md.

    python -m benchmarks.bounds_table

All norms of weights are 1, tokens have norm at most 4, 8 heads, and alpha_2 = 1.
"""

import math

import torch
from torch import Tensor

from benchmarks.command import command, table
from layers.attention.bounds import AttentionNorms, Bound, attention_bound

RADIUS, HEADS = 4.0, 8
LENGTHS = (2, 4, 8, 20, 64, 128)
ALPHAS = (64.0, 16.0, 4.0, 2.0, 1.0, 0.25)


def bounds(
    length: int, alpha_1: Tensor, *, bound: Bound = "sound", clip: float = 1.0, kappa: float = 1.0
) -> Tensor:
    """Return the bound for each value of alpha_1."""
    ones = torch.ones_like(alpha_1)
    return attention_bound(
        alpha_1,
        length * ones,
        radius=RADIUS * ones,
        value_radius=clip * RADIUS * ones,
        norms=AttentionNorms(kappa=kappa),
        bound=bound,
    )


def grid() -> str:
    """Return the bound by length and temperature."""
    alphas, rows = torch.tensor(ALPHAS, dtype=torch.float64), []
    for length in LENGTHS:
        columns = (
            bounds(length, alphas, bound="paper"),
            bounds(length, alphas),
            bounds(length, alphas, kappa=0.5),
            bounds(length, alphas, clip=1 / math.sqrt(HEADS)),
        )
        for alpha_1, *values in zip(ALPHAS, *(column.tolist() for column in columns), strict=True):
            rows.append([length, f"{alpha_1:g}", f"{RADIUS / alpha_1:g}", *values])
    head = ["N", "alpha_1", "tau", "paper", "sound", "sound, ReLU", "sound, value clip 1"]
    return table(head, rows)


def worst_ratios() -> str:
    """Return where the paper's formula is at least the sound one, and so holds."""
    # tau = radius / alpha_1 over ten orders of magnitude.
    alphas, rows = RADIUS / torch.logspace(-5, 5, 20001, dtype=torch.float64), []
    for length in (2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 128, 512):
        # Above 1, the printed formula is below the sound one and proves nothing.
        ratio, index = (bounds(length, alphas) / bounds(length, alphas, bound="paper")).max(dim=0)
        rows.append([length, f"{float(ratio):.5f}", f"{RADIUS / float(alphas[index]):.3g}"])
    return table(["N", "largest sound / paper", "at tau"], rows)


def main() -> None:
    """Print both tables."""
    command(__doc__).parse_args()
    print(f"{grid()}\n\n{worst_ratios()}")


if __name__ == "__main__":
    main()
