"""Nodes of additive attention with heads of fixed offsets and clipped values, as OLSA has them."""

import torch
from torch import Tensor
from typing_extensions import override

from certify.bound_propagation.propagation_graph import Affine, Elementwise, Graph, Node, Weights


class PairSums(Node):
    """`q_i + k_j`, from two `[B, H, N, f]` to `[B, H, N, N, f]`."""

    @override
    def forward(self) -> Affine:
        query, key = (node.affine for node in self.inputs)
        return Affine(*(a.unsqueeze(3) + b.unsqueeze(2) for a, b in zip(query, key, strict=True)))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        query, key = self.inputs
        passed = [(query, weights.sum(dim=4)), (key, weights.sum(dim=3))]
        return passed, weights.new_zeros(weights.shape[:2])


class OfFeatures(Node):
    """`weight_h . x + own_j`: scores `[B, H, N, N]` of pairs with features `[B, H, N, N, f]`.

    Args:
        graph: where it enters.
        pairs: the features.
        keys: what a key adds to the scores of all queries, `[B, H, N, 1]`.
        weight: `[H, f]`.
    """

    def __init__(self, graph: Graph, pairs: Node, keys: Node, weight: Tensor) -> None:
        self.weight = weight
        super().__init__(graph, pairs, keys)

    @override
    def forward(self) -> Affine:
        pairs, keys = (node.affine for node in self.inputs)
        weights = (self.weight, self.weight, self.weight.abs())
        return Affine(
            *(
                torch.einsum("bhijf...,hf->bhij...", one, weight) + own.transpose(2, 3)
                for one, own, weight in zip(pairs, keys, weights, strict=True)
            )
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        pairs, keys = self.inputs
        of_pairs = torch.einsum("brhij,hf->brhijf", weights, self.weight)
        passed = [(pairs, of_pairs), (keys, weights.sum(dim=3).unsqueeze(-1))]
        return passed, weights.new_zeros(weights.shape[:2])


class Offsets(Node):
    """The view of heads of fixed offsets: `[B, H, N, e]` to the same shape.

    Args:
        graph: where it enters.
        x: input.
        places: `[H, N, N]`, 1 where the token of a row sees that of a column.
    """

    def __init__(self, graph: Graph, x: Node, places: Tensor) -> None:
        self.places = places
        super().__init__(graph, x)

    @override
    def forward(self) -> Affine:
        return Affine(
            *(torch.einsum("hij,bhj...->bhi...", self.places, one) for one in self.inputs[0].affine)
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        passed = torch.einsum("brhie,hij->brhje", weights, self.places)
        return [(self.inputs[0], passed)], weights.new_zeros(weights.shape[:2])


class SomeHeads(Node):
    """Some heads of `[B, H, N, e]`.

    Args:
        graph: where it enters.
        x: input.
        first: the first head.
        behind: the head behind the last one.
    """

    def __init__(self, graph: Graph, x: Node, first: int, behind: int) -> None:
        self.first, self.behind = first, behind
        super().__init__(graph, x)

    @override
    def forward(self) -> Affine:
        return Affine(*(one[:, self.first : self.behind] for one in self.inputs[0].affine))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        before = self.inputs[0].affine.centre.shape
        passed = weights.new_zeros(*weights.shape[:2], *before[1:])
        passed[:, :, self.first : self.behind] = weights
        return [(self.inputs[0], passed)], weights.new_zeros(weights.shape[:2])


class AllHeads(Node):
    """Heads side by side: `[B, G, N, e]` and `[B, H, N, e]` to `[B, G + H, N, e]`."""

    @override
    def forward(self) -> Affine:
        one, other = (node.affine for node in self.inputs)
        return Affine(*(torch.cat(both, dim=1) for both in zip(one, other, strict=True)))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        number = self.inputs[0].affine.centre.shape[1]
        parts = weights[:, :, :number], weights[:, :, number:]
        return list(zip(self.inputs, parts, strict=True)), weights.new_zeros(weights.shape[:2])


class Clipped(Node):
    """Vectors `[B, H, N, e]` projected to a ball: `c v` with c = min(1, radius / |v|).

    c lies between its values for the longest and the shortest vector of the set, and the middle of
    these is taken: exact where no vector is longer than the radius.

    Args:
        graph: where it enters.
        x: input.
        radius: of the ball.
    """

    def __init__(self, graph: Graph, x: Node, radius: float) -> None:
        self.radius = radius
        super().__init__(graph, x)

    @override
    def forward(self) -> Affine:
        x = self.inputs[0]
        lower, upper = x.interval()
        most = torch.maximum(lower.abs(), upper.abs())
        least = torch.maximum(lower, -upper).clamp_min(0)
        factors = [
            (self.radius / one.norm(dim=-1, keepdim=True)).clamp_max(1.0) for one in (most, least)
        ]
        self.middle, half = (factors[0] + factors[1]) / 2, (factors[1] - factors[0]) / 2
        self.rest = half * most
        return Affine(
            self.middle * x.affine.centre,
            self.middle[..., None, None] * x.affine.slope,
            self.middle * x.affine.error + self.rest,
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        constant = -(weights.abs() * self.rest.unsqueeze(1)).flatten(2).sum(dim=-1)
        return [(self.inputs[0], weights * self.middle.unsqueeze(1))], constant


def absolutes(graph: Graph, query: Node, key: Node) -> Node:
    """`|q_i + k_j|`, from two `[B, H, N, f]` to `[B, H, N, N, f]`."""
    return Elementwise(graph, PairSums(graph, query, key), "abs")
