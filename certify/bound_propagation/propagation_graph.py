"""A graph of values that depend on a perturbed text, each with bounds; forward and backward.

Forward, every value is `centre + slope . delta`, up to an error of at most `error`: delta is the
perturbation of the chosen words, so a slope has W * d numbers and not N * d. Backward, a linear
combination of a node's values is bounded through the relaxations of all nodes before it (CROWN).
Source: Shi et al., "Robustness Verification for Transformers", 2020; what differs from it is in
docs/certificates/baselines.md.
"""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from certify.bound_propagation.regions import Moves
from certify.bound_propagation.relaxations import Kind, band, extremes, lines

Passes = Literal["forward", "mixed", "backward"]

ROWS = 128
"""Combinations of a backward pass that are bounded together."""
WORTH = 0.02
"""Numbers are left as they are where the gap of their relaxation is below this share of the largest
one: their intervals are not refined."""


class Affine(NamedTuple):
    """`centre [B, *S] + slope [B, *S, W, d] . delta`, up to `error [B, *S]` of at least 0."""

    centre: Tensor
    slope: Tensor
    error: Tensor


Weights = list[tuple["Node", Tensor]]


class Node(ABC):
    """A value `[B, *S]`, which is a function of earlier values in the same graph."""

    affine: Affine
    lower: Tensor
    upper: Tensor
    refined = False

    def __init__(self, graph: "Graph", *inputs: "Node") -> None:
        """Add the node to the graph, after its inputs."""
        self.graph, self.inputs = graph, inputs
        self.index = len(graph.nodes)
        graph.nodes.append(self)
        self.affine = self.forward()
        self.lower, self.upper = graph.interval(self.affine)

    @abstractmethod
    def forward(self) -> Affine:
        """Return the value as a function of the perturbation."""

    @abstractmethod
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        """Bound `weights . value` from below by combinations of the inputs.

        Weights are `[B, R, *S]`; the results weights `[B, R, *S']` for each input, and a constant
        `[B, R]`.
        """

    def interval(self, worth: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return least and largest values `[B, *S]`, refined where the graph refines this node.

        `worth` `[B, *S]` is True where a refinement is of use; None for everywhere.
        """
        if not self.refined and self.graph.refines(self):
            # Without an error the forward pass is exact.
            worth = self.affine.error > 0 if worth is None else worth & (self.affine.error > 0)
            self._refine(worth)
        self.refined = True
        return self.lower, self.upper

    def _refine(self, worth: Tensor) -> None:
        """Take the bounds of backward passes where they are better."""
        rows = worth.flatten(1).any(dim=0).nonzero().squeeze(1)
        if len(rows) == 0:
            return
        bounds = self.graph.bound_values(self, rows)
        shape = self.affine.centre.shape
        refined = Affine(
            *(
                old.flatten(1, len(shape) - 1).index_copy(1, rows, new).view(old.shape)
                for old, new in zip(self.affine, bounds, strict=True)
            )
        )
        lower, upper = self.graph.interval(refined)
        self.lower = torch.maximum(self.lower, lower)
        self.upper = torch.minimum(self.upper, upper)
        better = refined.error < self.affine.error
        wide = better[..., None, None]
        self.affine = Affine(
            torch.where(better, refined.centre, self.affine.centre),
            torch.where(wide, refined.slope, self.affine.slope),
            torch.where(better, refined.error, self.affine.error),
        )


class Graph:
    """The nodes in the order of computation.

    Args:
        region: texts that the bounds hold for.
        passes: nodes whose bounds are refined by backward passes of their own. forward: none.
            mixed: linear maps, so that a layer's attention alone is passed forward. backward: all
            that are relaxed.
    """

    def __init__(self, region: Moves, *, passes: Passes) -> None:
        self.region, self.passes = region, passes
        self.nodes: list[Node] = []

    def interval(self, affine: Affine) -> tuple[Tensor, Tensor]:
        """Return least and largest values of an affine function, `[B, *S]` each."""
        least, largest = self.region.ends(affine.slope)
        return affine.centre + least - affine.error, affine.centre + largest + affine.error

    def refines(self, node: Node) -> bool:
        """Return True if the bounds of a node are refined by backward passes."""
        if isinstance(node, Elementwise):
            return False  # the bounds of its input already determine its own
        return self.passes == "backward" or (self.passes == "mixed" and isinstance(node, Linear))

    def line(self, node: Node, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return a function of the perturbation that is below `weights . value` of a node.

        Weights are `[B, R, *S]`; the function a constant `[B, R]` and slopes `[B, R, W, d]`.
        """
        pending: dict[int, Tensor] = {node.index: weights}
        constant = weights.new_zeros(weights.shape[:2])
        # From the last node to the first: all consumers of a node come before it.
        for current in reversed(self.nodes[1 : node.index + 1]):
            combination = pending.pop(current.index, None)
            if combination is None:
                continue
            passed, share = current.backward(combination)
            constant = constant + share
            for before, new in passed:
                former = pending.get(before.index)
                pending[before.index] = new if former is None else former + new
        # The first node is the input: every linear path ends there.
        of_input = pending[0]
        return constant + _dot(of_input, self.region.centre), self.region.of_words(of_input)

    def least(self, node: Node, weights: Tensor) -> Tensor:
        """Return `[B, R]` lower bounds on `weights . value` of a node; weights `[B, R, *S]`."""
        constant, slope = self.line(node, weights)
        return constant + self.region.ends(slope)[0]

    def bound_values(self, node: Node, rows: Tensor) -> Affine:
        """Return `[B, R]` values of a node, and slopes, between the lines of two backward passes.

        Rows are `[R]` int64, positions of the values in a flattened `[*S]`.
        """
        shape = node.affine.centre.shape
        size = shape[1:].numel()
        parts = []
        for positions in torch.split(rows, ROWS):
            units = functional.one_hot(positions, size).to(node.affine.centre.dtype)
            weights = units.view(1, len(positions), *shape[1:]).expand(shape[0], *[-1] * len(shape))
            low, low_slope = self.line(node, weights)
            high, high_slope = self.line(node, -weights)
            # Two lines become one with an error: a mean slope, and the widest gap around it.
            gap = -self.region.ends((high_slope + low_slope) / 2)[0]
            parts.append(((low - high) / 2, (low_slope - high_slope) / 2, -(low + high) / 2 + gap))
        return Affine(*(torch.cat(columns, dim=1) for columns in zip(*parts, strict=True)))


def _dot(weights: Tensor, values: Tensor) -> Tensor:
    """Return `[B, R]` from `[B, R, *S]` and `[B, *S]`."""
    return (weights * values.unsqueeze(1)).flatten(2).sum(dim=-1)


class Input(Node):
    """The tokens `[B, N, d]`."""

    @override
    def forward(self) -> Affine:
        region = self.graph.region
        moved, (batch, length, width) = region.words.shape[1], region.centre.shape
        # [B, N, d, W, d]: the identity where a word moves, else 0.
        slope = region.centre.new_zeros(batch, length, width, moved, width)
        rows = torch.arange(batch, device=region.words.device)
        eye = torch.eye(width, dtype=slope.dtype, device=slope.device)
        for number in range(moved):
            slope[rows, region.words[:, number], :, number] = eye
        return Affine(region.centre, slope, torch.zeros_like(region.centre))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        # The path ends here: `Graph.line` reads the weights of node 0.
        return [(self, weights)], weights.new_zeros(weights.shape[:2])


class Linear(Node):
    """`x W^T + b` of the last dimension of its input, and a change of shape before and after.

    Args:
        weight: `[n, m]`.
        bias: `[n]`, or None.
        heads: split the output `[B, N, n]` to `[B, heads, N, n / heads]`; 0 leaves it.
        joins: bring an input `[B, H, N, e]` to `[B, N, H e]` first.
    """

    def __init__(
        self,
        graph: Graph,
        x: Node,
        weight: Tensor,
        bias: Tensor | None,
        *,
        heads: int = 0,
        joins: bool = False,
    ) -> None:
        self.weight, self.bias, self.heads, self.joins = weight, bias, heads, joins
        super().__init__(graph, x)

    def _shaped(self, x: Tensor, weight: Tensor) -> Tensor:
        if self.joins:
            x = x.transpose(1, 2).flatten(2, 3)
        # The features are the third dimension, or the second after the pooling.
        # [B, N, d], with slopes [B, N, d, W, d]; pooled [B, d] and [B, d, W, d].
        at = 2 if x.dim() in (3, 5) else 1
        out = torch.movedim(torch.movedim(x, at, -1) @ weight.mT, -1, at)
        if self.heads:
            out = torch.unflatten(out, 2, (self.heads, -1)).transpose(1, 2)
        return out

    @override
    def forward(self) -> Affine:
        x = self.inputs[0].affine
        centre = self._shaped(x.centre, self.weight)
        if self.bias is not None:
            bias = self.bias
            if self.heads:
                bias = bias.view(self.heads, 1, -1)
            centre = centre + bias
        return Affine(
            centre, self._shaped(x.slope, self.weight), self._shaped(x.error, self.weight.abs())
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        if self.heads:
            weights = weights.transpose(2, 3).flatten(3)
        constant = weights.new_zeros(weights.shape[:2])
        if self.bias is not None:
            constant = (weights * self.bias).flatten(2).sum(dim=-1)
        passed = weights @ self.weight
        if self.joins:
            shape = self.inputs[0].affine.centre.shape
            passed = torch.unflatten(passed, -1, (shape[1], shape[3])).transpose(2, 3)
        return [(self.inputs[0], passed)], constant


class Sum(Node):
    """The sum of two values of one shape, times a factor of at least 0."""

    def __init__(self, graph: Graph, first: Node, second: Node, *, factor: float = 1.0) -> None:
        self.factor = factor
        super().__init__(graph, first, second)

    @override
    def forward(self) -> Affine:
        first, second = (node.affine for node in self.inputs)
        return Affine(*(self.factor * (a + b) for a, b in zip(first, second, strict=True)))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        passed = self.factor * weights
        return [(node, passed) for node in self.inputs], weights.new_zeros(weights.shape[:2])


class Weighted(Node):
    """A sum of tokens `[B, N, d]` weighted by shares `[B, N]` of at least 0: the pooling."""

    def __init__(self, graph: Graph, x: Node, shares: Tensor) -> None:
        self.shares = shares
        super().__init__(graph, x)

    @override
    def forward(self) -> Affine:
        return Affine(
            *(torch.einsum("bn,bn...->b...", self.shares, a) for a in self.inputs[0].affine)
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        passed = self.shares[:, None, :, None] * weights.unsqueeze(2)
        return [(self.inputs[0], passed)], weights.new_zeros(weights.shape[:2])


class Elementwise(Node):
    """A function of each number; 0 where the mask, which broadcasts to the input, is 0."""

    def __init__(self, graph: Graph, x: Node, kind: Kind, mask: Tensor | None = None) -> None:
        self.kind, self.mask = kind, mask
        super().__init__(graph, x)
        least, largest = extremes(kind, *x.interval())
        self.lower = torch.maximum(self.lower, self._masked(least))
        self.upper = torch.minimum(self.upper, self._masked(largest))

    def _masked(self, x: Tensor) -> Tensor:
        return x if self.mask is None else x.masked_fill(self.mask == 0, 0.0)

    @override
    def forward(self) -> Affine:
        x = self.inputs[0]
        # Refining an interval costs a backward pass: tiny gaps are not worth it.
        first = band(self.kind, x.lower, x.upper)
        gap = first.high - first.low
        ends = x.interval(gap > WORTH * gap.flatten(1).amax(dim=1).view(-1, *[1] * (gap.dim() - 1)))
        slope, low, high = (self._masked(line) for line in band(self.kind, *ends))
        self.lines = [self._masked(line) for line in lines(self.kind, *ends)]
        return Affine(
            slope * x.affine.centre + (low + high) / 2,
            slope[..., None, None] * x.affine.slope,
            slope.abs() * x.affine.error + (high - low) / 2,
        )

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        low_slope, low, high_slope, high = self.lines
        # A lower bound takes the lower line for positive weights, and the upper one for negative.
        above, below = weights.clamp_min(0), weights.clamp_max(0)
        passed = above * low_slope.unsqueeze(1) + below * high_slope.unsqueeze(1)
        return [(self.inputs[0], passed)], _dot(above, low) + _dot(below, high)


class LogSoftmax(Node):
    """`s - logsumexp(s)` of each row of scores `[B, H, N, N]`, over the real tokens."""

    def __init__(self, graph: Graph, scores: Node, keys: Tensor) -> None:
        self.keys = keys
        super().__init__(graph, scores)
        lower, upper = scores.interval()
        own = self._of_others(lower, upper), self._of_others(upper, lower)
        self.lower = torch.maximum(self.lower, own[0])
        self.upper = torch.minimum(self.upper, own[1])

    def _of_others(self, own: Tensor, rest: Tensor) -> Tensor:
        """Return the log-softmax of a row with the score `own`, and `rest` at all other keys."""
        # [B, H, N, N, N]: for each key the gaps to all other keys of its row.
        gaps = rest.unsqueeze(-2) - own.unsqueeze(-1)
        same = torch.eye(own.shape[-1], dtype=torch.bool, device=own.device)
        gaps = gaps.masked_fill(same, 0.0).masked_fill(~self.keys.unsqueeze(-2) & ~same, -torch.inf)
        return -gaps.logsumexp(dim=-1)

    @override
    def forward(self) -> Affine:
        scores = self.inputs[0]
        lower, upper = scores.interval()
        middle = ((lower + upper) / 2).masked_fill(~self.keys, -torch.inf)
        # Below: the tangent at the middle. Above: chords of exp, and the tangent of log.
        tangent = middle.softmax(dim=-1)
        real = torch.where(self.keys, middle, 0.0)
        below = middle.logsumexp(dim=-1) - (tangent * real).sum(dim=-1)
        shift = upper.masked_fill(~self.keys, -torch.inf).amax(dim=-1, keepdim=True)
        chords = band("exp", lower - shift, upper - shift)
        slope, high = (a.masked_fill(~self.keys, 0.0) for a in (chords.slope, chords.high))
        total = (slope * (real - shift) + high).sum(dim=-1, keepdim=True)
        steep = slope / total
        # log T <= log t + (T - t) / t with T = sum(slope (s - shift) + high).
        above = total.log() - 1 + ((high - slope * shift) / total).sum(dim=-1, keepdim=True)
        above = (above + shift).squeeze(-1)
        self.tangent, self.below, self.steep, self.above = tangent, below, steep, above
        # In the forward pass the upper plane is made parallel to the lower one.
        more = steep - tangent
        far = torch.where(self.keys, torch.where(more > 0, upper, lower), 0.0)
        high_end = above + (more * far).sum(dim=-1)
        x = scores.affine
        centre = x.centre - (tangent * x.centre).sum(-1, keepdim=True)
        centre = centre - ((below + high_end) / 2).unsqueeze(-1)
        mixed = torch.einsum("bhij,bhij...->bhi...", tangent, x.slope)
        error = (1 - 2 * tangent) * x.error + (tangent * x.error).sum(dim=-1, keepdim=True)
        error = error + ((high_end - below) / 2).clamp_min(0).unsqueeze(-1)
        return Affine(centre, x.slope - mixed.unsqueeze(3), error)

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        # The weight of a row's logsumexp.
        of_row = -weights.sum(dim=-1)
        above, below = of_row.clamp_min(0), of_row.clamp_max(0)
        passed = weights + above.unsqueeze(-1) * self.tangent.unsqueeze(1)
        passed = passed + below.unsqueeze(-1) * self.steep.unsqueeze(1)
        return [(self.inputs[0], passed)], _dot(above, self.below) + _dot(below, self.above)


class Product(Node):
    """A product of two values, expanded at the middles of their intervals.

    `a b = a' b + a b' - a' b' + (a - a')(b - b')`, and the last term is at most the product of
    half the widths.
    """

    def _middles(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the middle and half the width of each factor's interval."""
        halves = []
        for factor in self.inputs:
            lower, upper = factor.interval()
            halves.append(((lower + upper) / 2, (upper - lower) / 2))
        return halves[0], halves[1]


class Scores(Product):
    """`scale * q_i . k_j`, from queries and keys `[B, H, N, e]` to `[B, H, N, N]`."""

    def __init__(self, graph: Graph, query: Node, key: Node, scale: float) -> None:
        self.scale = scale
        super().__init__(graph, query, key)

    @override
    def forward(self) -> Affine:
        (self.query, wide), (self.key, broad) = self._middles()
        query, key = (node.affine for node in self.inputs)
        self.rest = self.scale * wide @ broad.mT
        self.constant = -self.scale * self.query @ self.key.mT
        # q k' + q' k - q' k'; the rest, (q - q')(k - k'), is an error.
        centre = self.scale * (query.centre @ self.key.mT + self.query @ key.centre.mT)
        slope = torch.einsum("bhie...,bhje->bhij...", query.slope, self.key)
        slope = slope + torch.einsum("bhie,bhje...->bhij...", self.query, key.slope)
        error = query.error @ self.key.abs().mT + self.query.abs() @ key.error.mT
        return Affine(centre + self.constant, self.scale * slope, self.scale * error + self.rest)

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        scaled = self.scale * weights
        passed: Weights = [
            (self.inputs[0], scaled @ self.key.unsqueeze(1)),
            (self.inputs[1], scaled.mT @ self.query.unsqueeze(1)),
        ]
        return passed, _dot(weights, self.constant) - _dot(weights.abs(), self.rest)


class Mixed(Product):
    """`sum_j P_ij v_j`, from `[B, H, N, N]` and `[B, H, N, e]` to `[B, H, N, e]`.

    As the rows of P sum to 1, it is `c_i + sum_j P_ij (v_j - c_i)` for any c_i: the mixture at the
    middles, which makes the factors of P small.
    """

    @override
    def forward(self) -> Affine:
        (self.shares, wide), (values, broad) = self._middles()
        mixture = self.shares @ values / self.shares.sum(dim=-1, keepdim=True)
        # [B, H, N, N, e]
        self.around = values.unsqueeze(2) - mixture.unsqueeze(3)
        self.rest = wide @ broad
        shares, value_ = (node.affine for node in self.inputs)
        self.constant = mixture - torch.einsum("bhij,bhije->bhie", self.shares, self.around)
        own = mixture * self.shares.sum(dim=-1, keepdim=True)
        self.constant = self.constant - own
        centre = self.constant + self.shares @ value_.centre
        centre = centre + torch.einsum("bhije,bhij->bhie", self.around, shares.centre)
        slope = torch.einsum("bhij,bhje...->bhie...", self.shares, value_.slope)
        slope = slope + torch.einsum("bhije,bhij...->bhie...", self.around, shares.slope)
        error = self.shares @ value_.error + self.rest
        error = error + torch.einsum("bhije,bhij->bhie", self.around.abs(), shares.error)
        return Affine(centre, slope, error)

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        passed: Weights = [
            (self.inputs[0], torch.einsum("brhie,bhije->brhij", weights, self.around)),
            (self.inputs[1], self.shares.mT.unsqueeze(1) @ weights),
        ]
        return passed, _dot(weights, self.constant) - _dot(weights.abs(), self.rest)
