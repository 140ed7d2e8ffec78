"""Additive attention with tanh (Bahdanau et al., 2015), between the tokens of one text."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from layers.attention.headed import HeadedAttention

# Size of the tensor of pairs and features that is computed at a time.
_NUMBERS = 2**24


class TanhAdditiveAttention(HeadedAttention):
    """softmax over j of w . tanh((q_i + k_j) / 2), w `[e]` trained for each head.

    Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate", 2015,
    appendix A.1.2; thesis, equations 3.1 to 3.3. The thesis prints (Q + K) / 2 token by token,
    which would not mix different tokens; it must mean all pairs.
    """

    def __init__(self, width: int, heads: int, **base: Any) -> None:
        """Make the projections and the score vectors; the arguments are of `HeadedAttention`."""
        super().__init__(width, heads, **base)
        size = width // heads
        self.score = nn.Parameter(torch.randn(heads, size) / size**0.5)

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        # A few rows at a time, recomputed in the backward pass: memory is N x N, not N x N x e.
        rows = max(1, _NUMBERS // key.numel())
        parts = [
            checkpoint(_scores, part, key, self.score, use_reentrant=False)
            if torch.is_grad_enabled()
            else _scores(part, key, self.score)
            for part in torch.split(query, rows, dim=-2)
        ]
        scores = torch.cat(parts, dim=-2).masked_fill(~mask[:, None, None, :], float("-inf"))
        weights = functional.dropout(scores.softmax(dim=-1), self.dropout, self.training)
        return weights @ value


def _scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """`[B, H, R, N]` of `[B, H, R, e]`, `[B, H, N, e]` and `[H, e]`."""
    hidden = torch.tanh((query.unsqueeze(-2) + key.unsqueeze(-3)) / 2)
    return torch.einsum("bhrne,he->bhrn", hidden, weight)
