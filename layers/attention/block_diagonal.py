"""DiagAttention: scaled dot-product attention inside blocks of w tokens (Qin et al., 2022)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from layers.attention.scaled_dot_product import SelfAttention


class BlockDiagonalAttention(SelfAttention):
    """softmax(Q K^T / sqrt(e)) V where tokens i and j with the same i // w see each other.

    Qin et al., "The Devil in Linear Transformer", 2022, section 4.2; thesis, equations 3.17 to
    3.19. Time and memory are linear in N.
    """

    def __init__(self, width: int, heads: int, *, window: int = 15, **base: Any) -> None:
        """Make the projections for blocks of `window` tokens; the rest: see `HeadedAttention`."""
        super().__init__(width, heads, **base)
        if window < 1:
            msg = f"got window={window}, expected at least 1 token"
            raise ValueError(msg)
        self.window = window

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        size = key.shape[-2]
        more = -size % self.window
        # [B, N / w, w]
        blocks = torch.unflatten(functional.pad(mask, (0, more)), 1, (-1, self.window))
        # A softmax over no token is NaN: a block of padding alone sees itself, and is never used.
        blocks = blocks | ~blocks.any(dim=-1, keepdim=True)
        query, key, value = (
            torch.unflatten(functional.pad(part, (0, 0, 0, more)), 2, (-1, self.window))
            for part in (query, key, value)
        )
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=blocks[:, None, :, None, :],
            dropout_p=self.dropout if self.training else 0.0,
        )
        return mixed.flatten(2, 3)[:, :, :size]
