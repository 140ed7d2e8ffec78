"""Trains a Transformer with a self-attention of your own: nearer tokens have larger weights.

steadfast train --config configs/text_classifier/reviews.yaml \
    --model.attention.kind examples.attention_of_your_own.NearAttention
"""

import torch
from torch import Tensor, nn


class NearAttention(nn.Module):
    """Softmax of the products of tokens less their distance, for tokens `[B, N, d]`."""

    def __init__(self, width: int, slope: float = 0.5) -> None:
        """Make the maps.

        Args:
            width: token width d. It may also take `heads`, `dropout`, `length` (the most tokens of
                a text) and `early` (first half of the layers): each is passed if it is named.
            slope: loss of score per token of distance; a parameter of your own needs a default.
        """
        super().__init__()
        self.maps, self.slope = nn.Linear(width, 3 * width), slope

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map tokens `[B, N, d]` and mask `[B, N]`, True at real tokens, to `[B, N, d]`."""
        query, key, value = self.maps(x).chunk(3, dim=-1)
        positions = torch.arange(x.shape[1], device=x.device)
        scores = query @ key.transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores - self.slope * (positions[:, None] - positions).abs()
        # Without this line the check at the start refuses it: padding must have no influence.
        scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
        mixed: Tensor = scores.softmax(dim=-1) @ value
        return mixed
