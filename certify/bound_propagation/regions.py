"""The sets of texts around a text that bounds hold for."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override


@dataclass(frozen=True)
class Moves(ABC):
    """All texts whose chosen words move, each by a delta; the others stay.

    Attributes:
        centre: `[B, N, d]` float64, the text.
        words: `[B, W]` int64, positions of the words that move, different from each other.
    """

    centre: Tensor
    words: Tensor

    @abstractmethod
    def ends(self, slopes: Tensor) -> tuple[Tensor, Tensor]:
        """Return least and largest `slopes . delta` `[B, ...]`, from slopes `[B, ..., W, d]`."""

    def of_words(self, weights: Tensor) -> Tensor:
        """Return `[B, R, W, d]`: the part of `[B, R, N, d]` that meets the words that move."""
        index = self.words[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[-1])
        return weights.gather(2, index)


@dataclass(frozen=True)
class Region(Moves):
    """All texts whose chosen words move within p-norm balls of radius `[B]`, p 1, 2 or inf."""

    epsilon: Tensor
    p: float

    @override
    def ends(self, slopes: Tensor) -> tuple[Tensor, Tensor]:
        # Hoelder: |s . delta| <= |s|_q |delta|_p with 1/p + 1/q = 1.
        dual = {1.0: torch.inf, 2.0: 2.0, torch.inf: 1.0}[self.p]
        reach: Tensor = torch.linalg.vector_norm(slopes, ord=dual, dim=-1).sum(dim=-1)
        reach = reach * self.epsilon.view(-1, *[1] * (reach.dim() - 1))
        return -reach, reach


@dataclass(frozen=True)
class WordChoices(Moves):
    """All texts with at most k chosen words replaced, each by one of S candidates.

    A delta is 0, or 1 at the chosen candidate: d is S, and the centre is 0. A linear form is then
    bounded exactly. Nodes of `word_nodes` turn choices into numbers.

    Attributes:
        k: `[B]` int64, largest number of replaced words.
    """

    k: Tensor

    @classmethod
    def among(cls, candidates: int, length: int, words: Tensor, k: Tensor) -> "WordChoices":
        """Return the set around a text of N words for each of B numbers of changes `[B]`.

        Words `[W]` are the positions of those with S candidates.
        """
        rows = len(k)
        centre = torch.zeros(rows, length, candidates, dtype=torch.float64, device=words.device)
        return cls(centre, words.expand(rows, -1), k)

    @override
    def ends(self, slopes: Tensor) -> tuple[Tensor, Tensor]:
        return -self._most(-slopes), self._most(slopes)

    def _most(self, slopes: Tensor) -> Tensor:
        """Return the sum of the k largest gains of single words."""
        # At least 0: a word stays where no choice gains. Words do not interact in a linear
        # function, so the k largest gains are the largest sum.
        best = slopes.amax(dim=-1).clamp_min(0).sort(dim=-1, descending=True).values
        counted = torch.arange(best.shape[-1], device=best.device) < self.k.view(
            -1, *[1] * (best.dim() - 1)
        )
        return (best * counted).sum(dim=-1)

    def worst(self, slopes: Tensor) -> Tensor:
        """Return `[B, R, W]` choices with the least `slopes . delta`; -1: the word stays."""
        least, choice = slopes.min(dim=-1)
        rank = least.argsort(dim=-1).argsort(dim=-1)  # 0 for the word with the largest loss
        return choice.masked_fill((least >= 0) | (rank >= self.k.view(-1, 1, 1)), -1)
