"""Nodes of additive attention with heads of fixed offsets and clipped values, as OLSA has them."""

import torch
from torch import Tensor
from typing_extensions import override

from certify.bound_propagation.propagation_graph import Affine, Graph, Node, Weights


class PairSums(Node):
    """`q_i + k_j`, from two `[B, H, N, f]` to `[B, H, N, N, f]`."""

    @override
    def forward(self) -> Affine:
        query, key = (node.affine for node in self.inputs)
        return Affine(*(a.unsqueeze(3) + b.unsqueeze(2) for a, b in zip(query, key, strict=True)))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        query, key = self.inputs
        # [B, R, H, N, N, f]: q_i occurs in all pairs of row i, and k_j in all of column j.
        passed = [(query, weights.sum(dim=4)), (key, weights.sum(dim=3))]
        return passed, weights.new_zeros(weights.shape[:2])


class OfFeatures(Node):
    """`weight_h . x + own_j`: scores `[B, H, N, N]` of pairs with features `[B, H, N, N, f]`.

    The keys' share in the scores of all queries is `[B, H, N, 1]`, the weight `[H, f]`.
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
                torch.einsum("bhijf...,hf->bhij...", values, weight) + own.transpose(2, 3)
                for values, own, weight in zip(pairs, keys, weights, strict=True)
            )
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        pairs, keys = self.inputs
        # [B, R, H, N, N] -> [B, R, H, N, N, f]
        of_pairs = torch.einsum("brhij,hf->brhijf", weights, self.weight)
        passed = [(pairs, of_pairs), (keys, weights.sum(dim=3).unsqueeze(-1))]
        return passed, weights.new_zeros(weights.shape[:2])


class Offsets(Node):
    """The tokens that heads of fixed offsets see: `[B, H, N, e]` to the same shape.

    Places `[H, N, N]` are 1 where the token of a row sees that of a column.
    """

    def __init__(self, graph: Graph, x: Node, view: Tensor) -> None:
        self.view = view
        super().__init__(graph, x)

    @override
    def forward(self) -> Affine:
        return Affine(
            *(torch.einsum("hij,bhj...->bhi...", self.view, a) for a in self.inputs[0].affine)
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        passed = torch.einsum("brhie,hij->brhje", weights, self.view)
        return [(self.inputs[0], passed)], weights.new_zeros(weights.shape[:2])


class SomeHeads(Node):
    """The heads from the first to before the last of `[B, H, N, e]`."""

    def __init__(self, graph: Graph, x: Node, first: int, stop: int) -> None:
        self.first, self.stop = first, stop
        super().__init__(graph, x)

    @override
    def forward(self) -> Affine:
        return Affine(*(values[:, self.first : self.stop] for values in self.inputs[0].affine))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        before = self.inputs[0].affine.centre.shape
        passed = weights.new_zeros(*weights.shape[:2], *before[1:])
        passed[:, :, self.first : self.stop] = weights
        return [(self.inputs[0], passed)], weights.new_zeros(weights.shape[:2])


class AllHeads(Node):
    """Heads side by side: `[B, G, N, e]` and `[B, H, N, e]` to `[B, G + H, N, e]`."""

    @override
    def forward(self) -> Affine:
        first, second = (node.affine for node in self.inputs)
        return Affine(*(torch.cat(both, dim=1) for both in zip(first, second, strict=True)))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        number = self.inputs[0].affine.centre.shape[1]
        parts = weights[:, :, :number], weights[:, :, number:]
        return list(zip(self.inputs, parts, strict=True)), weights.new_zeros(weights.shape[:2])


class Clipped(Node):
    """Vectors `[B, H, N, e]` projected to a ball: `c v` with c = min(1, radius / |v|).

    c is between its values for the longest and the shortest vector of the set, and the node takes
    the middle of these: exact where no vector is longer than the radius.
    """

    def __init__(self, graph: Graph, x: Node, radius: float) -> None:
        self.radius = radius
        super().__init__(graph, x)

    @override
    def forward(self) -> Affine:
        x = self.inputs[0]
        lower, upper = x.interval()
        # Largest and least magnitude of each number; the least is 0 where the interval has 0.
        most = torch.maximum(lower.abs(), upper.abs())
        least = torch.maximum(lower, -upper).clamp_min(0)
        factors = [
            (self.radius / v.norm(dim=-1, keepdim=True)).clamp_max(1.0) for v in (most, least)
        ]
        # The factor falls as the norm grows: the largest norm has the least factor.
        self.middle, half = (factors[0] + factors[1]) / 2, (factors[1] - factors[0]) / 2
        self.rest = half * most  # |c - middle| <= half
        return Affine(
            self.middle * x.affine.centre,
            self.middle[..., None, None] * x.affine.slope,
            self.middle * x.affine.error + self.rest,
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        constant = -(weights.abs() * self.rest.unsqueeze(1)).flatten(2).sum(dim=-1)
        return [(self.inputs[0], weights * self.middle.unsqueeze(1))], constant
