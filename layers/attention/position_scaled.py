"""PAAS: each pair of positions has a trained scale instead of 1 / sqrt(e) (Mao et al., 2022)."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention, exact, wide
from layers.attention.linformer import check_length


class PositionScaledAttention(HeadedAttention):
    """softmax(Q K^T * W / sqrt(e)) V, W `[n, n]` trained, the same for all heads.

    Mao et al., "Towards Robust Vision Transformer", 2022, section 3.3; thesis, equation 3.4. W
    begins with ones, which is scaled dot-product attention; the released code leaves it without
    initial values.
    """

    def __init__(self, width: int, heads: int, *, length: int, **base: Any) -> None:
        """Make the projections; `length` is n, the longest text in tokens."""
        super().__init__(width, heads, **base)
        self.scale = nn.Parameter(torch.ones(length, length))

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        size = check_length(key.shape[-2], len(self.scale))
        with exact(query):
            query, key, values = wide(query), wide(key), wide(value)
            scale = wide(self.scale[:size, :size]) / math.sqrt(query.shape[-1])
            scores = query @ key.transpose(-1, -2) * scale
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
            weights = functional.dropout(scores.softmax(dim=-1), self.dropout, self.training)
            return (weights @ values).to(value.dtype)
