"""Lipschitz constants of encoders from measured weight norms; proofs in docs/certificates.md."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from layers.attention.bounds import AttentionNorms, Bound, attention_bound, mixing_norm
from layers.attention.l2_bounds import ball_gain
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.encoders import LipschitzBlock, LipschitzClassifier, LipschitzEncoder
from layers.norms import spectral_norm_bound
from layers.orthogonal import OrthogonalLinear

UNIT = torch.finfo(torch.float64).eps / 2
"""Unit roundoff of the float64 pass."""


class BlockNorms(NamedTuple):
    """The norms of a block's weights that its bound needs; measured once."""

    attention: AttentionNorms
    feedforward: Tensor


Gain = Callable[[Tensor, Tensor], Tensor]
"""Of an attention layer before its scaling, around its inputs for the texts of a batch: its
Lipschitz constant `[B]` within a distance `[B]`, for tokens whose norms have a bound `[B]`."""


class Around(NamedTuple):
    """A ball around each text, and what each attention layer does in it.

    Attributes:
        gains: of the layers, in order; None where nothing better is known than everywhere.
        distance: `[B]`, the radius of the ball.
    """

    gains: Sequence[Gain | None]
    distance: Tensor


class EncoderBound(NamedTuple):
    """The proven bounds of an encoder, for inputs of each length.

    Attributes:
        lipschitz: `[B]`, Lipschitz constant from tokens to the pooled vector.
        norm: `[B]`, bound on the norm of the pooled vector.
        rounding: `[B]`, how far the pooled vector of the float64 pass may be from that of real
            arithmetic; infinite where nothing is proven.
        lipschitz_before: `[B]`, as `lipschitz`, to the inputs of the last block's feed-forward map.
        rounding_before: `[B]`, as `rounding`, of those inputs.
    """

    lipschitz: Tensor
    norm: Tensor
    rounding: Tensor
    lipschitz_before: Tensor
    rounding_before: Tensor


def measure(network: LipschitzClassifier) -> list[BlockNorms]:
    """Return upper bounds, in float64, on the norms of each block's weights."""
    return [_measure(block) for block in _blocks(network.encoder)]


def _blocks(encoder: LipschitzEncoder) -> Iterator[LipschitzBlock]:
    for block in encoder.blocks:
        assert isinstance(block, LipschitzBlock)  # `check_network` made sure
        yield block


def _measure(block: LipschitzBlock) -> BlockNorms:
    attention = block.attention
    feedforward = torch.ones_like(attention.alpha_1, dtype=torch.float64)
    if block.feedforward is not None:
        feedforward = _norm(block.feedforward.inner) * _norm(block.feedforward.outer)
    if isinstance(attention, OneLipschitzL2Attention):
        # What it mixes are its queries, which are its keys, too.
        query = _norm(attention.query)
        norms = AttentionNorms(query=query, key=query, value=query * _norm(attention.output))
        return BlockNorms(norms, feedforward)
    score = attention.score_weight().to(torch.float64)
    exact = 1 + 1e-12  # covers the rounding of the vector norms and of kappa
    query, key = (spectral_norm_bound(w) for w in attention.query_key.weight())
    norms = AttentionNorms(
        query=query,
        key=key,
        value=_norm(attention.value),
        score=torch.linalg.vector_norm(score, dim=-1).amax() * exact,
        kappa=attention.kappa().to(torch.float64) * exact,
    )
    return BlockNorms(norms, feedforward)


def _norm(layer: OrthogonalLinear) -> Tensor:
    return spectral_norm_bound(layer.weight().flatten(0, 1))


def encoder_bound(
    network: LipschitzClassifier,
    norms: Sequence[BlockNorms],
    lengths: Tensor,
    *,
    bound: Bound,
    around: Around | None = None,
) -> EncoderBound:
    """Return the Lipschitz constant from tokens to the pooled vector, and the pass's own error.

    The ball projection and the pooling are 1-Lipschitz; blocks multiply. Two radii are followed:
    the one the forward pass itself uses (ideal weights) to set alpha_2 and the value clip, and a
    proven one that allows for the norms of each block, by `measure`. `lengths` `[B]` float64 are
    numbers of real tokens. With `around`, the constants hold between each text and all points of
    its ball.
    """
    encoder, width = network.encoder, network.head.in_features
    exact = 1 + 1e-11  # covers the rounding of what is computed here
    lipschitz, roots = torch.ones_like(lengths), lengths.sqrt()
    gamma = rounding_of_sums(width, lengths)
    used = torch.full_like(lengths, encoder.radius)
    rounding = gamma * used * roots
    proven = used * exact + rounding
    before = lipschitz, rounding
    gains = [None] * len(norms) if around is None else around.gains
    for block, measured, near in zip(_blocks(encoder), norms, gains, strict=True):
        attention = block.attention
        alpha_2 = attention.alpha_2(lengths, used)
        gain, mixed = _attention(
            attention, measured.attention, lengths, used=used, proven=proven, bound=bound
        )
        if around is not None and near is not None:
            local = near(lipschitz * exact * around.distance + rounding, proven)
            # False where `local` is NaN: the sound gain stays.
            gain = torch.where(local < gain, local, gain)
        # The block is the mean of the identity and attention / alpha_2.
        half = (1 + gain / alpha_2) / 2
        step = _attention_rounding(attention, measured.attention, lengths, gamma, proven)
        lipschitz, rounding = lipschitz * half, rounding * half + step * proven * roots
        proven = (proven + mixed / alpha_2) / 2
        used = used * (1 + attention.growth(lengths, used) / alpha_2) / 2
        before = lipschitz, rounding
        if block.feedforward is not None:
            half = (1 + measured.feedforward) / 2
            step = 4 * gamma * math.sqrt(width) * measured.feedforward.clamp_min(1)
            lipschitz, rounding = lipschitz * half, rounding * half + step * proven * roots
            proven = proven * half
        if block.norm is not None:
            shift = torch.linalg.vector_norm(block.norm.bias)
            rounding = rounding + 4 * gamma * (proven + shift) * roots
            used, proven = used + shift, proven + shift
        proven = proven + rounding  # of the tokens that the pass computes, too
    rounding = rounding + 2 * gamma * proven * roots
    return EncoderBound(
        lipschitz=lipschitz * exact,
        norm=proven * roots + rounding,
        rounding=rounding,
        lipschitz_before=before[0] * exact,
        rounding_before=before[1],
    )


def rounding_of_sums(width: int, lengths: Tensor) -> Tensor:
    """Return `[B]`, relative error of a sum of up to `width` or N terms, in any order, in float64.

    gamma_k = k u / (1 - k u) with k larger than either by as much as what goes with a sum needs:
    functions such as exp and sqrt, within 8 units, and a few products and quotients.
    """
    terms = width + lengths + 100
    return terms * UNIT / (1 - terms * UNIT)


def _attention_rounding(
    attention: OneLipschitzSelfAttention | OneLipschitzL2Attention,
    norms: AttentionNorms,
    lengths: Tensor,
    gamma: Tensor,
    radius: Tensor,
) -> Tensor:
    """Bound the error of the float64 output, in units of the tokens' norm.

    docs/certificates.md, "The rounding of the float64 pass".
    """
    longest = torch.stack([torch.as_tensor(n) for n in (norms.query, norms.key, norms.value)])
    longest = longest.amax().clamp_min(1)
    if isinstance(attention, OneLipschitzL2Attention):
        # Rounding of the logits grows with their size.
        sharpness = 1 + 6 * (longest * radius).square() / attention.alpha_1
    else:
        sharpness = 1 + norms.score * longest * radius / attention.alpha_1
    step = 16 * gamma * (attention.width + lengths) * sharpness * longest
    # Beyond this the logits of a row may be nothing but rounding, or their softmax underflow.
    proven = (sharpness < 300) & (gamma * math.sqrt(attention.width) * sharpness < 0.01)
    return torch.where(proven, step, torch.inf)


def _attention(
    attention: OneLipschitzSelfAttention | OneLipschitzL2Attention,
    norms: AttentionNorms,
    lengths: Tensor,
    *,
    used: Tensor,
    proven: Tensor,
    bound: Bound,
) -> tuple[Tensor, Tensor]:
    """Return Lipschitz constant and largest output norm of a layer, before dividing by alpha_2."""
    value_radius = norms.value * proven
    largest = value_radius * lengths.clamp_max(attention.heads).sqrt()
    if isinstance(attention, OneLipschitzL2Attention):
        queries = norms.query * proven
        reach = mixing_norm(4 * queries.square() / attention.alpha_1, lengths)
        gain = ball_gain(attention.alpha_1, lengths, radius=queries, bound=bound)
        return norms.value * gain, torch.minimum(largest, value_radius * reach)
    if attention.value_clip is not None:
        value_radius = torch.minimum(value_radius, attention.value_radius(used))
        largest = torch.minimum(largest, value_radius * math.sqrt(attention.heads))
    # Scores of a row differ by at most this.
    oscillation = norms.score * norms.key * proven / attention.alpha_1
    offsets = lengths.clamp_max(attention.offset_heads)
    reach = (mixing_norm(oscillation, lengths).square() + offsets).sqrt()
    mixed = torch.minimum(largest, norms.value * proven * reach)
    gain = attention_bound(
        attention.alpha_1,
        lengths,
        radius=proven,
        value_radius=value_radius,
        norms=norms,
        bound=bound,
    )
    return gain, mixed
