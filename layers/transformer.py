"""The ordinary Transformer classifier on embedded tokens (Vaswani et al., 2017)."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.attention.mechanisms import Attention, Layer, build_attention
from layers.single_logit import logit_head
from text import check_choice, check_range

Norm = Literal["pre", "post"]
FeedForwardActivation = Literal["gelu", "relu"]


@dataclass(frozen=True, kw_only=True)
class TransformerLayers:
    """The settings of the layers of an ordinary Transformer.

    Attributes:
        feedforward: number of features between the two maps of the feed-forward part; null: 4 *
            width.
        norm: LayerNorm. pre: before each part, and one after the last layer; post: after each sum,
            as in Vaswani et al., 2017.
        activation: activation of the feed-forward part; relu is that of Vaswani et al.
        mean_norm: LayerNorm without its division, required by `certify --bound propagation`.
    """

    feedforward: int | None = None
    norm: Norm = "pre"
    activation: FeedForwardActivation = "gelu"
    mean_norm: bool = False

    def __post_init__(self) -> None:
        """Check the settings."""
        check_range({"layers.feedforward": self.feedforward}, least=1)
        check_choice("layers.norm", self.norm, get_args(Norm))
        check_choice("layers.activation", self.activation, get_args(FeedForwardActivation))


class CentringNorm(nn.Module):
    """LayerNorm without its division: subtract the mean, scale and shift each feature.

    It is a linear map: bounds pass through it without a loss (Shi et al., 2020).
    """

    def __init__(self, width: int) -> None:
        """Args: width: of a token."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """`[..., d]` to `[..., d]`."""
        return (x - x.mean(dim=-1, keepdim=True)) * self.weight + self.bias


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward map, each with a residual connection and LayerNorm."""

    def __init__(
        self,
        width: int,
        attention: nn.Module,
        *,
        dropout: float,
        layers: TransformerLayers = TransformerLayers(),
    ) -> None:
        """Build the layers around an attention, with dropout everywhere else.

        Norm pre: x + f(norm(x)), post: norm(x + f(x)).
        """
        super().__init__()
        norm = CentringNorm if layers.mean_norm else nn.LayerNorm
        self.attention_norm, self.feedforward_norm = norm(width), norm(width)
        self.attention = attention
        features = 4 * width if layers.feedforward is None else layers.feedforward
        self.inner, self.outer = nn.Linear(width, features), nn.Linear(features, width)
        self.dropout = nn.Dropout(dropout)
        self.post = layers.norm == "post"
        self.activation = functional.relu if layers.activation == "relu" else functional.gelu

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` and `[B, N]` to `[B, N, d]`."""
        out: Tensor
        if self.post:
            x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
            out = self.feedforward_norm(x + self._feed_forward(x))
            return out
        x = x + self.dropout(self.attention(self.attention_norm(x), mask))
        out = x + self._feed_forward(self.feedforward_norm(x))
        return out

    def _feed_forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout(self.outer(self.activation(self.inner(x))))
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
        layers: TransformerLayers = TransformerLayers(),
        single_logit: bool = False,
    ) -> None:
        """Build the layers.

        Args:
            width: of a token.
            num_classes: number of logits.
            depth: number of layers.
            heads: of each attention.
            dropout: everywhere, while training.
            pooling: input of the head, the mean of the real tokens or the first one.
            attention: settings of the self-attention of all layers.
            max_length: the longest text in tokens; some mechanisms have a table of positions.
            layers: the other settings of all layers.
            single_logit: see `logit_head`.

        Raises:
            ValueError: sizes that do not fit each other.
        """
        super().__init__()
        first = Layer(width=width, heads=heads, dropout=dropout, length=max_length, early=True)
        self.blocks = nn.ModuleList()
        for number in range(depth):
            # TransNormer changes its attention half way; other kinds ignore `early`.
            mechanism = build_attention(attention, replace(first, early=number < depth // 2))
            self.blocks.append(TransformerBlock(width, mechanism, dropout=dropout, layers=layers))
        # A pre-norm block does not normalise its output, so the last one needs a norm.
        norm = CentringNorm if layers.mean_norm else nn.LayerNorm
        self.norm = norm(width) if layers.norm == "pre" else nn.Identity()
        self.head = logit_head(width, num_classes, single=single_logit)
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
