"""Sums of evidence: the score of a text grows with each word or n-gram that it has."""

import torch
from torch import Tensor, nn

from layers.ngram_scores import GRID, NgramScores


class EvidenceSum(nn.Module):
    """Adds up the evidence of the *set* of words and n-grams of a text.

    A word or n-gram counts once, however often a text has it. So more text never takes evidence
    away if no score is below 0, and sums of scores on the grid are exact for texts of any length:
    they have at most as many terms as the tables have rows.

    Args:
        positive: index of the class that evidence speaks for, 0 or 1.
    """

    def __init__(self, *, positive: int = 1) -> None:
        super().__init__()
        self.positive = positive
        self.bias = nn.Parameter(torch.zeros(2))

    def offsets(self) -> Tensor:
        """`[2]`: the bias; float64 and on the grid in evaluation mode."""
        if self.training:
            return self.bias
        return (self.bias.to(torch.float64) / GRID).round() * GRID

    def forward(self, evidence: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, 1]` new evidence of each position and mask `[B, N]` to logits `[B, 2]`."""
        score = evidence.squeeze(-1).masked_fill(~mask, 0.0).sum(dim=1, keepdim=True)
        both = [torch.zeros_like(score), score]
        return torch.cat(both if self.positive else both[::-1], dim=1) + self.offsets()


def new_evidence(scores: NgramScores, ids: Tensor) -> Tensor:
    """`[B, N, 1]`: scores of the words and n-grams that end at a position for the first time.

    The scores have one class; ids are `[B, N]`.
    """
    words = nn.functional.embedding(ids, scores.word_table())
    total = words * first_occurrences(ids).unsqueeze(-1)
    for order in scores.orders:
        if ids.shape[1] >= order:
            rows = scores.rows(ids.unfold(1, order, 1))
            added = nn.functional.embedding(rows, scores.ngram_table(order))
            added = added * first_occurrences(rows).unsqueeze(-1)
            total = total + nn.functional.pad(added, (0, 0, order - 1, 0))
    return total


def first_occurrences(items: Tensor) -> Tensor:
    """`[B, N]` to bool `[B, N]`: True where an item is the first of its kind in its row."""
    values, order = items.sort(dim=1, stable=True)
    first = torch.ones_like(values, dtype=torch.bool)
    first[:, 1:] = values[:, 1:] != values[:, :-1]
    return torch.zeros_like(first).scatter(1, order, first)
