"""Checks of all nodes of a graph at points of its region."""

from collections.abc import Sequence

import torch
from torch import Tensor

from certify.bound_propagation.propagation_graph import Affine, Graph

SLACK = 1e-8


def check_nodes(graph: Graph, exact: Sequence[Tensor], delta: Tensor) -> None:
    """Assert that each node's bounds hold, forward and backward, and those of its numbers.

    Args:
        graph: with all of its nodes.
        exact: `[n, B, *S]` for each node, its values at n points of each region.
        delta: `[n, B, W, d]`, the perturbations of these points.
    """
    torch.manual_seed(0)
    for node, value in zip(graph.nodes, exact, strict=True):
        name = f"{type(node).__name__} {node.index}"
        assert bool((value >= node.lower - SLACK).all()), name
        assert bool((value <= node.upper + SLACK).all()), name
        assert _encloses(node.affine, value, delta), name
        if not node.index:
            continue  # the input
        shape = node.affine.centre.shape
        weights = torch.randn(shape[0], 6, *shape[1:], dtype=delta.dtype)
        passed, below = node.backward(weights)
        for before, combination in passed:
            below = below + _dots(combination, exact[before.index])
        assert bool((below <= _dots(weights, value) + SLACK).all()), name
        rows = torch.randperm(shape[1:].numel())[:6]
        assert _encloses(graph.bound_values(node, rows), value.flatten(2)[..., rows], delta), name


def _encloses(affine: Affine, value: Tensor, delta: Tensor) -> bool:
    line = affine.centre + torch.einsum("b...wd,nbwd->nb...", affine.slope, delta)
    return bool(((value - line).abs() <= affine.error + SLACK).all())


def _dots(weights: Tensor, value: Tensor) -> Tensor:
    """`[n, B, R]` from `[B, R, *S]` and `[n, B, *S]`."""
    return (weights * value.unsqueeze(2)).flatten(3).sum(dim=-1)
