"""The certifiable family of classifiers on embedded tokens."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from layers.attention.additive import Activation
from layers.attention.bounds import Bound
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.ball import project_to_ball
from layers.groupsort import GroupSort
from layers.orthogonal import Method, OrthogonalLinear
from text import check_choice, check_range


class MeanOnlyNorm(nn.Module):
    """LayerNorm without the variance: subtract the mean, add a bias (OLSA paper, appendix G)."""

    def __init__(self, width: int) -> None:
        """Args: width: token width."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, mask: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Centre real tokens; the bias adds its norm to the bound on the tokens' norms."""
        # Subtracting the mean lengthens no token: only the bias can leave the ball.
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
        attention: OneLipschitzSelfAttention | OneLipschitzL2Attention,
        *,
        feedforward: OrthogonalFeedForward | None = None,
        norm: MeanOnlyNorm | None = None,
        dropout: float = 0.0,
    ) -> None:
        """Join the parts.

        Two are ablations: a mean-only normalisation of the output, and dropout on the mixed output
        while training.
        """
        super().__init__()
        self.attention, self.feedforward, self.norm = attention, feedforward, norm
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, N, d]`, `[B, N]`, `[B]` to the new tokens and the bound on their norms."""
        mixed, mixed_radius = self.attention(x, mask, radius)
        x, radius = (x + self.dropout(mixed)) / 2, (radius + mixed_radius) / 2
        if self.feedforward is not None:
            # Orthogonal maps and sorting keep norms: the radius stays.
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
        # Filled, not multiplied: 0 * infinity at padding would be NaN.
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
        # A sum of N tokens over sqrt(N) is 1-Lipschitz in the norm of all tokens together.
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
        """Add a head on the pooled vector, without a bias by default.

        Rewarding margins could grow a bias without limit.
        """
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, num_classes, bias=head_bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` tokens with mask `[B, N]` to `[B, C]` logits."""
        logits: Tensor = self.head(self.encoder(x, mask))
        return logits


@dataclass(frozen=True, kw_only=True)
class OLSALayers:
    """The settings of the layers of an OLSA Transformer.

    Attributes:
        attention: additive: OLSA's. l2: tied L2 attention, the baseline "Kim et al.".
        bound: formula of alpha_2. sound: our theorem. paper: as printed, not a theorem. kim: with
            attention=l2, Theorem 3.2 of Kim et al. by its proof.
        initial_alpha_1: attention temperature at the start, in units of logits; trained.
        value_clip: project each head's values to value_clip * r / sqrt(heads); null for none.
        offset_heads: number of heads that look at the neighbours 1, 1, 2, 2, ... tokens away, which
            costs nothing in the bound (ours).
        feedforward: add a 1-Lipschitz feed-forward map to every layer (ours).
        orthogonal: parametrisation of orthogonal weights.
        activation: activation of the attention scores; relu is the paper's ablation.
        mean_norm: apply LayerNorm without variance after each layer, the paper's ablation.
        dropout: dropout after each layer while training, the paper's ablation.
    """

    attention: Literal["additive", "l2"] = "additive"
    bound: Bound = "sound"
    initial_alpha_1: float = 16.0
    value_clip: float | None = None
    offset_heads: int = 0
    feedforward: bool = False
    orthogonal: Method = "cayley"
    activation: Activation = "maxmin"
    mean_norm: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges, and that the attention has the other settings."""
        check_choice("layers.attention", self.attention, ("additive", "l2"))
        if self.attention == "l2" and (
            self.value_clip is not None or self.offset_heads or self.activation != "maxmin"
        ):
            msg = (
                f"got layers.attention=l2 with layers.value_clip={self.value_clip}, "
                f"layers.offset_heads={self.offset_heads} and layers.activation={self.activation}, "
                "expected null, 0 and maxmin: only additive attention has these"
            )
            raise ValueError(msg)
        if self.attention == "additive" and self.bound == "kim":
            msg = (
                "got layers.bound=kim with layers.attention=additive, expected sound or paper, or "
                "layers.attention=l2: Kim et al. prove it for tied L2 attention"
            )
            raise ValueError(msg)
        check_range({"layers.initial_alpha_1": self.initial_alpha_1}, above=0)
        check_range({"layers.value_clip": self.value_clip}, above=0)
        check_range({"layers.offset_heads": self.offset_heads}, least=0)
        check_range({"layers.dropout": self.dropout}, least=0, below=1)


def olsa_classifier(
    width: int,
    num_classes: int,
    *,
    depth: int,
    heads: int,
    radius: float,
    layers: OLSALayers = OLSALayers(),
    head_bias: bool = False,
) -> LipschitzClassifier:
    """Build the OLSA Transformer on embedded tokens; `depth=0` is the bag of embeddings.

    Args:
        width: token width d.
        num_classes: number of logits.
        depth: number of layers.
        heads: attention heads of a layer.
        radius: largest norm of an embedded token.
        layers: settings of a layer.
        head_bias: see `LipschitzClassifier`.
    """
    if not math.isfinite(radius) or radius <= 0:
        msg = f"got radius={radius}, expected a positive number"
        raise ValueError(msg)
    blocks = []
    for _ in range(depth):
        # Attention is drawn before the feed-forward part: the order fixes the random weights.
        feedforward = None
        mechanism = _attention(width, heads, layers)
        if layers.feedforward:
            feedforward = OrthogonalFeedForward(width, orthogonal=layers.orthogonal)
        norm = MeanOnlyNorm(width) if layers.mean_norm else None
        blocks.append(
            LipschitzBlock(mechanism, feedforward=feedforward, norm=norm, dropout=layers.dropout)
        )
    encoder = LipschitzEncoder(blocks, radius=radius)
    return LipschitzClassifier(encoder, width, num_classes, head_bias=head_bias)


def _attention(
    width: int, heads: int, layers: OLSALayers
) -> OneLipschitzSelfAttention | OneLipschitzL2Attention:
    if layers.attention == "l2":
        return OneLipschitzL2Attention(
            width,
            heads,
            initial_alpha_1=layers.initial_alpha_1,
            bound=layers.bound,
            orthogonal=layers.orthogonal,
        )
    return OneLipschitzSelfAttention(
        width,
        heads,
        initial_alpha_1=layers.initial_alpha_1,
        bound=layers.bound,
        value_clip=layers.value_clip,
        offset_heads=layers.offset_heads,
        activation=layers.activation,
        orthogonal=layers.orthogonal,
    )
