"""Lower bounds on Lipschitz constants: ascent on the norm of the Jacobian, by products with it.

No Jacobian is made. In the norm inf, its norm is the largest sum of absolute entries of a row, and
a layer that treats all tokens alike has all rows of one token in its sup: a product J^T e for each
feature of the first token. In the norm 2, |J^T u| of a unit vector u is a lower bound wherever u
comes from; power iteration makes it the norm.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.lipschitz.subjects import BoundedLayer, option
from layers.norms import Norm
from text import check_range

_POLISH = 30
"""Power iterations at the best input of a start."""
_SMALL = 1e-4
"""A relative gain below this, over `patience` steps, ends the ascent."""


@dataclass(frozen=True, kw_only=True)
class Ascent:
    """The settings of an ascent, those of the paper's appendix I.

    Attributes:
        patience: steps without gain after which the ascent of a group of starts ends.
    """

    starts: int = option(50, "random inputs to climb from")
    steps: int = option(1000, "steps of Adam, at most")
    patience: int = 100
    rate: float = option(0.1, "learning rate of the ascent", "R")

    def __post_init__(self) -> None:
        sizes = {"starts": self.starts, "steps": self.steps, "patience": self.patience}
        check_range(sizes, least=1)
        check_range({"rate": self.rate}, above=0)


class LargestNorms(NamedTuple):
    """The largest norm `[B]` of each ascent, its input `[B, N, D]`, and that of each step."""

    best: Tensor
    inputs: Tensor
    path: list[float]


def random_inputs(seeds: list[int], tokens: int, width: int) -> Tensor:
    """Return `[B, N, D]` float64 inputs: X_ij from U[-c, c], with c from U[0, 10] for each.

    Each has its own seed, so that groups do not matter.
    """
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        spread = 10 * torch.rand((), generator=generator, dtype=torch.float64)
        uniform = torch.rand(tokens, width, generator=generator, dtype=torch.float64)
        drawn.append(spread * (2 * uniform - 1))
    return torch.stack(drawn)


def climb(layer: BoundedLayer, x: Tensor, norm: Norm, settings: Ascent) -> LargestNorms:
    """Move inputs `[B, N, D]` to where the norm of the Jacobian is larger."""
    x = x.clone().requires_grad_()
    # Inputs are the parameters; Adam maximises.
    optimizer = torch.optim.Adam([x], lr=settings.rate, maximize=True)
    best, inputs, path = x.new_zeros(len(x)), x.detach().clone(), []
    side, last = None, (0.0, 0)
    for step in range(settings.steps):
        if norm == "inf":
            norms = row_sums(layer, x)
        else:
            norms, side = stretch(layer, x, side)
        with torch.no_grad():
            better = norms > best
            best = torch.where(better, norms, best)
            inputs = torch.where(better[:, None, None], x, inputs)
        path.append(float(norms.detach().max()))
        # All starts of a group end together, when their sum stops growing.
        total = float(best.sum())
        if total > last[0] * (1 + _SMALL):
            last = (total, step)
        elif step - last[1] >= settings.patience:
            break
        optimizer.zero_grad()
        torch.autograd.backward(norms.sum())
        optimizer.step()
    return LargestNorms(torch.maximum(best, value(layer, inputs, norm)), inputs, path)


def value(layer: BoundedLayer, x: Tensor, norm: Norm) -> Tensor:
    """Return a lower bound `[B]` on the norm of the Jacobian at `[B, N, D]`.

    It is exact but for power iteration.
    """
    x = x.detach().clone().requires_grad_()
    if norm == "inf":
        return row_sums(layer, x, graph=False).detach()
    norms, side = stretch(layer, x, None)
    for _ in range(_POLISH):
        norms, side = stretch(layer, x, side)
    return norms.detach()


def row_sums(layer: BoundedLayer, x: Tensor, *, graph: bool = True) -> Tensor:
    """Return `[B]` the largest absolute sum of a row of the Jacobian, of the first token's rows."""
    # Tokens are alike: the rows of one token have the largest sum.
    out = layer.first_token(x)
    sums = []
    for feature in range(out.shape[1]):
        (row,) = torch.autograd.grad(
            out[:, feature].sum(), x, create_graph=graph, retain_graph=True
        )
        sums.append(row.abs().sum(dim=(1, 2)))
    return torch.stack(sums).amax(dim=0)


def stretch(layer: BoundedLayer, x: Tensor, side: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return `[B]` |J^T u| with gradients, after one power iteration, and u of norm 1.

    `side` is u `[B, N, D]` of the step before; None to begin with.
    """
    out = layer.all_tokens(x)
    if side is None:
        generator = torch.Generator().manual_seed(0)
        side = torch.randn(out.shape[1:], generator=generator, dtype=out.dtype).to(out)
        side = _unit(side.expand_as(out))
    # J v is the derivative of J^T w, which is linear in w, in the direction v.
    w = torch.zeros_like(out, requires_grad=True)
    (pulled,) = torch.autograd.grad(out, x, w, create_graph=True)
    (turned,) = torch.autograd.grad(out, x, side, retain_graph=True)
    (pushed,) = torch.autograd.grad(pulled, w, _unit(turned), retain_graph=True)
    side = _unit(pushed.detach())
    (pulled,) = torch.autograd.grad(out, x, side, create_graph=True)
    return pulled.flatten(1).norm(dim=1), side


def _unit(x: Tensor) -> Tensor:
    norm: Tensor = x.flatten(1).norm(dim=1)
    return x / norm.clamp_min(1e-300)[:, None, None]
