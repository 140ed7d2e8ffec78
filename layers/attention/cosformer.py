"""CosFormer: linear attention with weights ReLU(q) . ReLU(k) cos(pi (i - j) / 2 n); and ReVCos."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention, exact, place, real, wide

LEAST = 1e-6
"""Lower limit of the sum of weights: a token without any weight gets zeros."""
LEAST_SIGNED = 1e-2
"""The same for weights of both signs, which may cancel."""


class CosFormerAttention(HeadedAttention):
    """Linear attention with cosine re-weighting.

    Qin et al., "cosFormer: Rethinking Softmax in Attention", 2022, equations 9 to 12; thesis,
    equations 3.11 to 3.16. M is the number of real tokens of each text: the released code takes the
    padded length of the batch, so that its outcome depends on the other texts. Time and memory are
    linear in N.
    """

    def __init__(
        self, width: int, heads: int, *, relu: bool = True, relu_value: bool = False, **base: Any
    ) -> None:
        """Make the projections; the rest: see `HeadedAttention`.

        `relu=False` leaves queries and keys unchanged (thesis, section 5.3.5): weights may be
        negative then, and `LEAST_SIGNED` bounds the absolute value of their sum. `relu_value` makes
        the values non-negative as well: ReVCos (thesis, equation 6.3).
        """
        super().__init__(width, heads, **base)
        self.relu, self.relu_value = relu, relu_value

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        if self.relu:
            query, key = functional.relu(query), functional.relu(key)
        if self.relu_value:
            value = functional.relu(value)
        angle = place(mask).to(wide(query).dtype) * (math.pi / 2) / mask.sum(dim=1, keepdim=True)
        turn = torch.stack([angle.cos(), angle.sin()], dim=-1)[:, None, :, None, :]
        with exact(query):
            query, key, value = wide(query), wide(real(key, mask)), wide(real(value, mask))
            # cos(a - b) = cos a cos b + sin a sin b: twice the features, and no pairs of tokens.
            query, key = ((part.unsqueeze(-1) * turn).flatten(-2) for part in (query, key))
            above = query @ (key.transpose(-1, -2) @ value)
            below = query @ key.sum(dim=-2).unsqueeze(-1)
        if self.relu:
            below = below.clamp_min(LEAST)
        else:
            # Not `sign`, which is 0 at 0.
            below = torch.where(below < 0, -1.0, 1.0) * below.abs().clamp_min(LEAST_SIGNED)
        return (above / below).to(self.output.weight.dtype)
