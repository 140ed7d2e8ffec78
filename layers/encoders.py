"""The certifiable family of classifiers on embedded tokens."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.ball import project_to_ball
from layers.groupsort import GroupSort
from layers.orthogonal import Method, OrthogonalLinear


class MeanOnlyNorm(nn.Module):
    """LayerNorm without the variance: subtract the mean, add a bias (OLSA paper, appendix G)."""

    def __init__(self, width: int) -> None:
        """Args: width: token width."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, mask: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Centre real tokens; the bias adds its norm to the bound on the tokens' norms."""
        centred = (x - x.mean(dim=-1, keepdim=True) + self.bias) * mask.unsqueeze(-1)
        return centred, radius + torch.linalg.vector_norm(self.bias)


class OrthogonalFeedForward(nn.Module):
    """Two orthogonal maps around a GroupSort: 1-Lipschitz and norm preserving, token by token."""

    def __init__(self, width: int, *, orthogonal: Method = "cayley") -> None:
        """Args: width: token width. orthogonal: parametrisation of the weights."""
        super().__init__()
        self.inner = OrthogonalLinear(width, width, method=orthogonal)
        self.outer = OrthogonalLinear(width, width, method=orthogonal)
        self.activation = GroupSort()

    def forward(self, x: Tensor) -> Tensor:
        """`[..., d]` to `[..., d]`."""
        out: Tensor = self.outer(self.activation(self.inner(x)))
        return out


class LipschitzBlock(nn.Module):
    """y = x/2 + f(x)/2 with f one-Lipschitz attention, then the same with a feed-forward map."""

    def __init__(
        self,
        attention: OneLipschitzSelfAttention,
        *,
        feedforward: OrthogonalFeedForward | None = None,
        norm: MeanOnlyNorm | None = None,
        dropout: float = 0.0,
    ) -> None:
        """Put the parts together.

        Args:
            attention: the mechanism.
            feedforward: optional second half.
            norm: optional mean-only normalisation of the output (ablation).
            dropout: probability on the mixed output while training (ablation).
        """
        super().__init__()
        self.attention, self.feedforward, self.norm = attention, feedforward, norm
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, N, d]`, `[B, N]`, `[B]` to the new tokens and the bound on their norms."""
        mixed, mixed_radius = self.attention(x, mask, radius)
        x, radius = (x + self.dropout(mixed)) / 2, (radius + mixed_radius) / 2
        if self.feedforward is not None:
            x = (x + self.dropout(self.feedforward(x))) / 2
        if self.norm is not None:
            x, radius = self.norm(x, mask, radius)
        return x, radius


class LipschitzEncoder(nn.Module):
    """Ball projection, blocks, and the pooling sum / sqrt(n): 1-Lipschitz for unit bounds.

    With no blocks this is the bag of embeddings, the baseline that attention has to beat.
    """

    def __init__(self, blocks: list[LipschitzBlock], *, radius: float) -> None:
        """Args: blocks: the layers, in order. radius: bound on the norm of input tokens."""
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.radius = radius

    def hidden_states(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the `[B, N, d]` tokens, projected to the ball, and the output of each block."""
        # Filled and not multiplied: whatever stands at padding, infinity included, is gone.
        x = project_to_ball(x, self.radius).masked_fill(~mask.unsqueeze(-1), 0.0)
        radius = x.new_full((x.shape[0],), self.radius)
        states = [x]
        for block in self.blocks:
            x, radius = block(x, mask, radius)
            states.append(x)
        return states

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Encode `[B, N, d]` tokens with mask `[B, N]` to `[B, d]`."""
        x = self.hidden_states(x, mask)[-1]
        return x.sum(dim=1) / mask.sum(dim=1, keepdim=True).to(x.dtype).sqrt()

    @torch.no_grad()
    def temperatures(self, lengths: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(alpha_1, mean alpha_2) of each layer for inputs of `lengths` `[B]`; for logs."""
        lengths = lengths.to(torch.get_default_dtype())
        radius = torch.full_like(lengths, self.radius)
        result = []
        for block in self.blocks:
            if isinstance(block, LipschitzBlock):
                alpha_2 = block.attention.alpha_2(lengths, radius)
                result.append((block.attention.alpha_1, alpha_2.mean()))
                radius = radius * (1 + block.attention.growth(lengths, radius) / alpha_2) / 2
                if block.norm is not None:
                    radius = radius + torch.linalg.vector_norm(block.norm.bias)
        return result


class LipschitzClassifier(nn.Module):
    """A Lipschitz encoder and a free linear head."""

    def __init__(
        self, encoder: LipschitzEncoder, width: int, num_classes: int, *, head_bias: bool = False
    ) -> None:
        """Add a head.

        Args:
            encoder: from tokens to `[B, width]`.
            width: of the pooled vector.
            num_classes: number of logits.
            head_bias: a free bias lets a margin reward run off to one class; off by default.
        """
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, num_classes, bias=head_bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` tokens with mask `[B, N]` to `[B, C]` logits."""
        logits: Tensor = self.head(self.encoder(x, mask))
        return logits


def olsa_classifier(
    width: int,
    num_classes: int,
    *,
    depth: int,
    heads: int,
    radius: float,
    initial_alpha_1: float,
    bound: Literal["sound", "paper"] = "sound",
    value_clip: float | None = None,
    offset_heads: int = 0,
    feedforward: bool = False,
    activation: Literal["maxmin", "relu"] = "maxmin",
    orthogonal: Method = "cayley",
    mean_norm: bool = False,
    dropout: float = 0.0,
    head_bias: bool = False,
) -> LipschitzClassifier:
    """The OLSA Transformer on embedded tokens; `depth=0` is the bag of embeddings.

    Args are those of the parts; see there.
    """
    if not math.isfinite(radius) or radius <= 0:
        msg = f"got radius={radius}, expected a positive number"
        raise ValueError(msg)
    blocks = [
        LipschitzBlock(
            OneLipschitzSelfAttention(
                width,
                heads,
                initial_alpha_1=initial_alpha_1,
                bound=bound,
                value_clip=value_clip,
                offset_heads=offset_heads,
                activation=activation,
                orthogonal=orthogonal,
            ),
            feedforward=OrthogonalFeedForward(width, orthogonal=orthogonal)
            if feedforward
            else None,
            norm=MeanOnlyNorm(width) if mean_norm else None,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    encoder = LipschitzEncoder(blocks, radius=radius)
    return LipschitzClassifier(encoder, width, num_classes, head_bias=head_bias)
