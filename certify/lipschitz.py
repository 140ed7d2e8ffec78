"""Lipschitz constants of encoders from measured weight norms; proofs in docs/certificates.md."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from certify.norms import spectral_norm_bound
from layers.attention.bounds import AttentionNorms, Bound, attention_bound, mixing_norm
from layers.attention.olsa import OneLipschitzSelfAttention
from layers.encoders import (
    LipschitzBlock,
    LipschitzClassifier,
    LipschitzEncoder,
    MeanOnlyNorm,
    OrthogonalFeedForward,
)
from layers.groupsort import GroupSort
from layers.orthogonal import OrthogonalLinear

COVERED: tuple[type[nn.Module], ...] = (
    LipschitzClassifier,
    LipschitzEncoder,
    LipschitzBlock,
    OneLipschitzSelfAttention,
    OrthogonalLinear,
    OrthogonalFeedForward,
    GroupSort,
    MeanOnlyNorm,
    nn.Dropout,
    nn.Linear,
    nn.ModuleList,
)
"""The classes whose compositions docs/certificates.md proves bounds for."""


class BlockNorms(NamedTuple):
    """What a block's bound needs to know of its weights; measured once."""

    attention: AttentionNorms
    feedforward: Tensor


def measure(network: LipschitzClassifier) -> list[BlockNorms]:
    """Upper bounds, in float64, on the norms of each block's weights.

    Raises:
        TypeError: a part of the network, or of a part, is not of the very class that the theorem
            is about; a subclass may compute anything.
    """
    for part in network.modules():
        if type(part) not in COVERED:
            msg = (
                f"got a {type(part).__name__} in a network to certify, expected only "
                f"{', '.join(kind.__name__ for kind in COVERED)}: no theorem covers others"
            )
            raise TypeError(msg)
    return [_measure(block) for block in _blocks(network.encoder)]


def _blocks(encoder: LipschitzEncoder) -> Iterator[LipschitzBlock]:
    for block in encoder.blocks:
        if not isinstance(block, LipschitzBlock):
            msg = f"got a block of type {type(block).__name__}, expected LipschitzBlock"
            raise TypeError(msg)
        yield block


def _measure(block: LipschitzBlock) -> BlockNorms:
    attention = block.attention
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
    feedforward = query.new_ones(())
    if block.feedforward is not None:
        feedforward = _norm(block.feedforward.inner) * _norm(block.feedforward.outer)
    return BlockNorms(norms, feedforward)


def _norm(layer: OrthogonalLinear) -> Tensor:
    return spectral_norm_bound(layer.weight().flatten(0, 1))


def encoder_bound(
    encoder: LipschitzEncoder, norms: list[BlockNorms], lengths: Tensor, *, bound: Bound
) -> Tensor:
    """Lipschitz constant from embedded tokens to the pooled vector.

    The ball projection and the pooling are 1-Lipschitz; blocks multiply. Two radii are followed:
    the one the forward pass itself uses (ideal weights) to set alpha_2 and the value clip, and a
    proven one that allows for the measured norms.

    Args:
        encoder: in float64 and evaluation mode.
        norms: of each block, by `measure`.
        lengths: `[B]` float64 number of real tokens.
        bound: formula of the attention layers.

    Returns:
        `[B]` float64.
    """
    lipschitz = torch.ones_like(lengths)
    used = torch.full_like(lengths, encoder.radius)
    proven = used * (1 + 1e-12)
    for block, measured in zip(_blocks(encoder), norms, strict=True):
        attention = block.attention
        alpha_2 = attention.alpha_2(lengths, used)
        gain, mixed = _attention(
            attention, measured.attention, lengths, used=used, proven=proven, bound=bound
        )
        lipschitz = lipschitz * (1 + gain / alpha_2) / 2
        proven = (proven + mixed / alpha_2) / 2
        used = used * (1 + attention.growth(lengths, used) / alpha_2) / 2
        if block.feedforward is not None:
            half = (1 + measured.feedforward) / 2
            lipschitz, proven = lipschitz * half, proven * half
        if block.norm is not None:
            shift = torch.linalg.vector_norm(block.norm.bias)
            used, proven = used + shift, proven + shift
    return lipschitz * (1 + 1e-12)


def _attention(
    attention: OneLipschitzSelfAttention,
    norms: AttentionNorms,
    lengths: Tensor,
    *,
    used: Tensor,
    proven: Tensor,
    bound: Bound,
) -> tuple[Tensor, Tensor]:
    """Lipschitz constant and largest output norm of one layer before the division by alpha_2."""
    value_radius = norms.value * proven
    largest = value_radius * lengths.clamp_max(attention.heads).sqrt()
    if attention.value_clip is not None:
        value_radius = torch.minimum(value_radius, attention.value_radius(used))
        largest = torch.minimum(largest, value_radius * math.sqrt(attention.heads))
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
