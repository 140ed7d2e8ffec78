"""One-Lipschitz self-attention (OLSA): additive attention scaled by its own Lipschitz bound.

Source: "Certifiably Robust Transformers with 1-Lipschitz Self-Attention", Definition 4.2, with the
scale alpha_2 set by our Theorem 1 (docs/certificates.md) unless the paper's formula is asked for.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.attention.additive import ACTIVATIONS, Activation, Form, additive_scores
from layers.attention.bounds import (
    ADDITIVE_BOUNDS,
    AttentionNorms,
    Bound,
    attention_bound,
    mixing_norm,
)
from layers.ball import project_to_ball
from layers.orthogonal import Method, OrthogonalLinear


class Weighed(NamedTuple):
    """Values `[B, H, N, e]`, clipped, and weights of one attention layer for a batch.

    Logits `[B, h, N, N]` of the choosing heads are up to a constant of each row.
    """

    value: Tensor
    logits: Tensor
    weights: Tensor


class OneLipschitzSelfAttention(nn.Module):
    """Multi-head additive attention whose output is divided by a bound on its Lipschitz constant.

    For tokens of norm at most r: s_ij = w_h . sigma((q_i + k_j) / 2) / alpha_1, rows of P are
    softmaxes over real tokens, y_i = sum_j P_ij v_j / alpha_2. W^Q, W^K, W^V are (semi-)orthogonal,
    the score vectors w_h have norm 1, alpha_1 > 0 is trained and alpha_2 follows from it.

    Ours, not the paper's: `offset_heads` heads always look at the token 1 to the left, 1 to the
    right, 2 to the left, ...; beyond the text they see zeros. Such a P is a partial permutation of
    norm at most 1 that does not depend on the input, so it costs nothing in the bound, and the
    model can tell neighbouring words from distant ones.

    Args:
        width: token width d, a multiple of `heads`.
        heads: number of heads H; width / heads must be even for `maxmin`.
        initial_alpha_1: temperature at the start, in units of logits.
        bound: formula for alpha_2.
        value_clip: project each head's value vectors to norm value_clip * r / sqrt(H), which
            makes the bound smaller; None for no projection.
        offset_heads: number of heads that look at fixed offsets; fewer than `heads`.
        activation: sigma; `relu` is the ablation of the paper's Table 8.
        orthogonal: parametrisation of the weights.
        form: way in which the scores are computed; changes time and memory, not the result.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        initial_alpha_1: float = 4.0,
        bound: Bound = "sound",
        value_clip: float | None = None,
        offset_heads: int = 0,
        activation: Activation = "maxmin",
        orthogonal: Method = "cayley",
        form: Form = "cdist",
    ) -> None:
        super().__init__()
        if width % heads or (activation == "maxmin" and (width // heads) % 2):
            even = "with an even number of features per head"
            msg = f"got {width=} and {heads=}, expected a width divisible by the heads, {even}"
            raise ValueError(msg)
        if initial_alpha_1 <= 0 or (value_clip is not None and value_clip <= 0):
            msg = f"got {initial_alpha_1=} and {value_clip=}, expected positive numbers or no clip"
            raise ValueError(msg)
        if bound not in ADDITIVE_BOUNDS or activation not in ACTIVATIONS:
            msg = (
                f"got {bound=} and {activation=}, expected one of "
                f"{', '.join(ADDITIVE_BOUNDS)} and one of {', '.join(ACTIVATIONS)}"
            )
            raise ValueError(msg)
        if not 0 <= offset_heads < heads:
            msg = f"got offset_heads={offset_heads}, expected 0 ... {heads - 1} of {heads} heads"
            raise ValueError(msg)
        self.width, self.heads, self.offset_heads = width, heads, offset_heads
        self.bound, self.value_clip = bound, value_clip
        self.activation, self.form = activation, form
        size, choosing = width // heads, heads - offset_heads
        self.value = OrthogonalLinear(width, width, method=orthogonal)
        self.query_key = OrthogonalLinear(width, choosing * size, count=2, method=orthogonal)
        self.raw_score = nn.Parameter(torch.randn(choosing, size))
        # The inverse of softplus: alpha_1 stays positive whatever the optimiser does.
        self.raw_alpha_1 = nn.Parameter(torch.tensor(math.log(math.expm1(initial_alpha_1))))

    @property
    def alpha_1(self) -> Tensor:
        """The temperature, a positive scalar."""
        return functional.softplus(self.raw_alpha_1)

    def score_weight(self) -> Tensor:
        """`[H - offset_heads, d / H]`, rows of norm 1 up to rounding."""
        return functional.normalize(self.raw_score, dim=-1)

    def kappa(self) -> Tensor:
        """Return the largest half-range norm of the score's gradient over heads, at most 1."""
        # The gradient of w . sigma is a constant plus or minus (w1 - w2)/2 in each MaxMin pair, and
        # w/2 plus or minus w/2 in each feature for ReLU; constants cancel in the softmax.
        weight = self.score_weight()
        if self.activation == "relu":
            return (weight.square().sum(dim=-1) / 4).amax().sqrt()
        gap = weight[:, 0::2] - weight[:, 1::2]
        # The slope of the square root at 0 is infinite.
        return (gap.square().sum(dim=-1) / 2).amax().clamp_min(1e-30).sqrt()

    def value_radius(self, radius: Tensor) -> Tensor:
        """`[B]` bound on the norm of one head's value vector, tokens in the ball of `radius`."""
        clip = 1.0 if self.value_clip is None else self.value_clip / math.sqrt(self.heads)
        return radius * min(clip, 1.0)

    def growth(self, lengths: Tensor, radius: Tensor) -> Tensor:
        """`[B]` bound on |alpha_2 y_i| / r for ideal weights (docs/certificates.md, Lemma 4)."""
        mixing = mixing_norm(radius / self.alpha_1, lengths)
        reach = (mixing.square() + lengths.clamp_max(self.offset_heads)).sqrt()
        limit = lengths.clamp_max(self.heads).sqrt()
        if self.value_clip is not None:
            limit = limit.clamp_max(self.value_clip)
        return torch.minimum(reach, limit)

    def alpha_2(self, lengths: Tensor, radius: Tensor) -> Tensor:
        """`[B]` the output scale, from lengths and norms `[B]`, for ideal weights."""
        return attention_bound(
            self.alpha_1,
            lengths,
            radius=radius,
            value_radius=self.value_radius(radius),
            norms=AttentionNorms(kappa=self.kappa()),
            bound=self.bound,
        )

    def weigh(self, x: Tensor, mask: Tensor, radius: Tensor) -> Weighed:
        """Return values and weights; the arguments are those of `forward`."""
        value = self.split_heads(self.value(x))
        query, key = (self.split_heads(part) for part in self.query_key(x).chunk(2, dim=-1))
        if self.value_clip is not None:
            value = project_to_ball(value, self.value_radius(radius)[:, None, None, None])
        scores = additive_scores(
            query, key, self.score_weight(), activation=self.activation, form=self.form
        )
        logits = scores / (2 * self.alpha_1)
        weights = logits.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(dim=-1)
        return Weighed(value, logits, weights)

    def forward(
        self, x: Tensor, mask: Tensor, radius: Tensor, weighed: Weighed | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend over the real tokens.

        Args:
            x: `[B, N, d]`, every real token of norm at most `radius`.
            mask: `[B, N]` bool, True at real tokens.
            radius: `[B]` bound on the norm of every input token.
            weighed: the result of `weigh` for the other arguments, if the caller has it.

        Returns:
            The output `[B, N, d]` (zero at padding) and `[B]` a bound on its tokens' norms.
        """
        value, _, weights = self.weigh(x, mask, radius) if weighed is None else weighed
        lengths = mask.sum(dim=1).to(x.dtype)
        alpha_2 = self.alpha_2(lengths, radius)
        heads = [weights @ value[:, self.offset_heads :]]
        if self.offset_heads:
            # Padding must be zero, like the values beyond the text.
            value = value[:, : self.offset_heads] * mask[:, None, :, None]
            heads.insert(0, self._shift(value))
        mixed = torch.cat(heads, dim=1).transpose(1, 2).flatten(-2) / alpha_2[:, None, None]
        return mixed * mask.unsqueeze(-1), radius * self.growth(lengths, radius) / alpha_2

    def split_heads(self, x: Tensor) -> Tensor:
        """`[B, N, h * e]` to `[B, h, N, e]`."""
        return x.reshape(*x.shape[:-1], -1, self.width // self.heads).transpose(1, 2)

    def _shift(self, value: Tensor) -> Tensor:
        """`[B, offset_heads, N, e]`: head h sees the token -1, +1, -2, +2, ... away."""
        length = value.shape[2]
        reach = (self.offset_heads + 1) // 2
        padded = functional.pad(value, (0, 0, reach, reach))
        # Zeros around the text: heads beyond its ends see nothing.
        starts = [reach + (h // 2 + 1) * (1 if h % 2 else -1) for h in range(self.offset_heads)]
        shifted = [padded[:, h, start : start + length] for h, start in enumerate(starts)]
        return torch.stack(shifted, dim=1)
