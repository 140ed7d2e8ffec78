"""The ordinary Transformer classifier on embedded tokens (Vaswani et al., 2017)."""

from dataclasses import replace
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from layers.attention.headed import HeadedAttention
from layers.attention.mechanisms import Attention, Layer, build_attention


class TransformerBlock(nn.Module):
    """Pre-norm Transformer block with GELU."""

    def __init__(self, width: int, attention: HeadedAttention, *, dropout: float) -> None:
        """Args: width: token width. attention: the mechanism. dropout: everywhere else."""
        super().__init__()
        self.attention_norm, self.feedforward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = attention
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` and `[B, N]` to `[B, N, d]`."""
        x = x + self.dropout(self.attention(self.attention_norm(x), mask))
        hidden = functional.gelu(self.inner(self.feedforward_norm(x)))
        out: Tensor = x + self.dropout(self.outer(hidden))
        return out


class TransformerClassifier(nn.Module):
    """Ordinary Transformer encoder, mean of the real tokens (or the first), linear head."""

    def __init__(
        self,
        width: int,
        num_classes: int,
        *,
        depth: int,
        heads: int,
        dropout: float = 0.1,
        pooling: Literal["mean", "first"] = "mean",
        attention: Attention = Attention(),
        max_length: int = 512,
    ) -> None:
        """Builds the layers.

        Args:
            width: of a token.
            num_classes: number of logits.
            depth: number of layers.
            heads: of each attention.
            dropout: everywhere, while training.
            pooling: input of the head, the mean of the real tokens or the first one.
            attention: settings of the self-attention of all layers.
            max_length: the longest text in tokens; some mechanisms have a table of places.

        Raises:
            ValueError: sizes that do not go together.
        """
        super().__init__()
        first = Layer(width=width, heads=heads, dropout=dropout, length=max_length, early=True)
        layers = [replace(first, early=number < depth // 2) for number in range(depth)]
        self.blocks = nn.ModuleList(
            TransformerBlock(width, build_attention(attention, layer), dropout=dropout)
            for layer in layers
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)
        self.pooling = pooling

    def hidden_states(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the `[B, N, d]` tokens, and the output of each block."""
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], mask))
        return states

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` tokens with mask `[B, N]` to `[B, C]` logits."""
        x = self.norm(self.hidden_states(x, mask)[-1])
        if self.pooling == "first":
            pooled = x[:, 0]
        else:
            pooled = (x * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        logits: Tensor = self.head(pooled)
        return logits
