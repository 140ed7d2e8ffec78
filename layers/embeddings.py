"""Token embeddings of bounded norm."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class NormalizedEmbedding(nn.Module):
    """Word embedding plus position (and segment) embedding, each scaled to a fixed norm.

    Every token then lies in the ball of radius `2 * norm` (OLSA paper, section 5.1: norm 2 each).
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        *,
        max_length: int,
        pairs: bool = False,
        norm: float = 2.0,
    ) -> None:
        """Draw normal embeddings.

        Args:
            vocab_size: number of token ids.
            width: embedding width d.
            max_length: longest text in tokens.
            pairs: add a segment embedding to the position's before that sum is scaled.
            norm: norm of the word part and of the position part.
        """
        super().__init__()
        self.norm, self.max_length = norm, max_length
        self.words = nn.Embedding(vocab_size, width)
        self.positions = nn.Embedding(max_length, width)
        self.segments = nn.Embedding(2, width) if pairs else None
        # Only directions matter, and a step of length s turns a vector of norm n by s / n: with
        # norms near 1 a usual learning rate turns them at a usual speed.
        for table in (self.words, self.positions, self.segments):
            if table is not None:
                nn.init.normal_(table.weight, std=width**-0.5)

    @property
    def radius(self) -> float:
        """Largest possible norm of an embedded token."""
        return 2 * self.norm

    def forward(self, input_ids: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """Embed tokens.

        Args:
            input_ids: `[B, N]` int64.
            segment_ids: `[B, N]` int64 of 0 and 1; needed if the layer was made for pairs.

        Returns:
            `[B, N, d]`.

        Raises:
            ValueError: more tokens than positions, or segments missing.
        """
        length = input_ids.shape[1]
        if length > self.max_length:
            msg = f"got {length} tokens, expected at most max_length={self.max_length}; truncate"
            raise ValueError(msg)
        place = self.positions(torch.arange(length, device=input_ids.device))
        if self.segments is not None:
            if segment_ids is None:
                msg = (
                    "got a batch without segment ids, expected pairs (the model was made for them)"
                )
                raise ValueError(msg)
            place = place + self.segments(segment_ids)
        words = functional.normalize(self.words(input_ids), dim=-1)
        return self.norm * (words + functional.normalize(place, dim=-1))
