"""Values of one word or of two, by tables over the candidates of `WordChoices`.

A function of one word is linear in its choice, and so exact. A function of two words has a table
of all pairs; the nearest sum of two functions of one word is linear, and the rest is its error.
"""

import torch
from torch import Tensor
from typing_extensions import override

from certify.bound_propagation.propagation_graph import Affine, Graph, Node, Weights

ROUNDS = 4
"""Sweeps of the fit of a sum to a table; any number of them gives a valid bound."""


class OfWords(Node):
    """A function of each word, `[B, N, d]`.

    Args:
        choices: the first node.
        table: `[N, S + 1, d]`, the value for the word itself and for each candidate; where a word
            has fewer than S candidates, its own value again.
    """

    def __init__(self, graph: Graph, choices: Node, table: Tensor) -> None:
        self.own, self.gains = table[:, 0], table[:, 1:] - table[:, :1]
        super().__init__(graph, choices)

    @override
    def forward(self) -> Affine:
        # [B, N, S, W, S] slopes of the choices become [B, N, d, W, S].
        slope = torch.einsum("nsd,bnswt->bndwt", self.gains, self.inputs[0].affine.slope)
        centre = self.own.expand(len(slope), -1, -1)
        return Affine(centre, slope, torch.zeros_like(centre))

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        passed = torch.einsum("brnd,nsd->brns", weights, self.gains)
        return [(self.inputs[0], passed)], torch.einsum("brnd,nd->br", weights, self.own)


class OfPairs(Node):
    """A function of each pair of words, `[B, H, N, N]`: scores of a first layer.

    The table `[H, N, S + 1, N, S + 1]` is as in `OfWords`; with k of 1, no pair is replaced as a
    whole.
    """

    def __init__(self, graph: Graph, choices: Node, table: Tensor, k: Tensor) -> None:
        pairs = table.transpose(2, 3)
        number, size = pairs.shape[1], pairs.shape[-1]
        # Of a word with itself only the pairs of equal choices exist.
        alone = torch.eye(number, dtype=torch.bool, device=table.device)[:, :, None, None]
        same = torch.eye(size, dtype=torch.bool, device=table.device)
        first = torch.zeros(size, size, dtype=torch.bool, device=table.device)
        # With k = 1 no two words change together: one of the two choices is 0.
        first[0], first[:, 0] = True, True
        several = (k > 1).view(-1, 1, 1, 1, 1)
        # [B, 1, N, N, S + 1, S + 1]
        self.exist = torch.where(alone, same, first | several).unsqueeze(1)
        self.pairs = pairs.expand(len(k), *pairs.shape)
        least = self.pairs.masked_fill(~self.exist, torch.inf).amin(dim=(-2, -1))
        largest = self.pairs.masked_fill(~self.exist, -torch.inf).amax(dim=(-2, -1))
        self._fit()
        super().__init__(graph, choices)
        self.lower, self.upper = least, largest

    def _fit(self) -> None:
        """Find the sum near the table: midranges by turns (Diliberto and Straus, 1951)."""
        rows = self.pairs[..., 0]
        columns = torch.zeros_like(rows)
        # Any number of rounds is sound, as `rest` bounds what the sum misses; more make it smaller.
        for _ in range(ROUNDS):
            columns = self._middle(self.pairs - rows.unsqueeze(-1), -2)
            rows = self._middle(self.pairs - columns.unsqueeze(-2), -1)
        fitted = rows.unsqueeze(-1) + columns.unsqueeze(-2)
        rest = (self.pairs - fitted).abs().masked_fill(~self.exist, 0.0)
        self.rest = rest.amax(dim=(-2, -1))
        self.own = rows[..., 0] + columns[..., 0]
        self.rows, self.columns = rows[..., 1:] - rows[..., :1], columns[..., 1:] - columns[..., :1]

    def _middle(self, gaps: Tensor, dim: int) -> Tensor:
        least = gaps.masked_fill(~self.exist, torch.inf).amin(dim=dim)
        return (least + gaps.masked_fill(~self.exist, -torch.inf).amax(dim=dim)) / 2

    @override
    def forward(self) -> Affine:
        slope = self.inputs[0].affine.slope
        of_rows = torch.einsum("bhijs,biswt->bhijwt", self.rows, slope)
        of_columns = torch.einsum("bhijs,bjswt->bhijwt", self.columns, slope)
        return Affine(self.own, of_rows + of_columns, self.rest)

    @override
    def backward(self, weights: Tensor) -> tuple[Weights, Tensor]:
        passed = torch.einsum("brhij,bhijs->bris", weights, self.rows)
        passed = passed + torch.einsum("brhij,bhijs->brjs", weights, self.columns)
        weighted = weights * self.own.unsqueeze(1) - weights.abs() * self.rest.unsqueeze(1)
        return [(self.inputs[0], passed)], weighted.flatten(2).sum(dim=-1)
