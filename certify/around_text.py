"""Radii by the behaviour of a network around one text: docs/certificates.md, section 9."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from certify.last_feedforward import LastFeedForward
from certify.lipschitz import Around, BlockNorms, EncoderBound, encoder_bound
from certify.local_attention import AttentionAround
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.encoders import LipschitzBlock, LipschitzClassifier

FARTHEST = 1.6
"""The first distance that is tried, in units of the radius by constants that hold everywhere."""
TRIES = 4


Arguments = dict[nn.Module, tuple[Any, ...]]
"""The arguments of parts of a network in one pass; for attention its `Weighed` follows them."""


class Leads(NamedTuple):
    """For predicted classes `[B]`, lower bounds `[B, C]` on the leads over other ones.

    `margin` `[B]` is the least lead over the norm of its direction.
    """

    labels: Tensor
    leads: Tensor
    margin: Tensor


class AroundText:
    """The parts of a network around the texts of a batch.

    `certify.parts.check_network` has passed the network, in float64 and evaluation mode.
    """

    def __init__(self, network: LipschitzClassifier, norms: Sequence[BlockNorms]) -> None:
        self.network, self.norms = network, norms
        self.last = LastFeedForward(network)
        self.attentions = [
            block.attention for block in network.encoder.blocks if isinstance(block, LipschitzBlock)
        ]

    @contextmanager
    def listening(self) -> Iterator[Arguments]:
        """Keep the arguments of each attention, and of the last map, of a pass in the context."""
        arguments: Arguments = {}

        def weigh(attention: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            assert isinstance(attention, OneLipschitzSelfAttention)  # as selected below
            arguments[attention] = (*inputs, attention.weigh(*inputs))
            # Replaces the arguments: the pass takes these weights, and computes no others.
            return arguments[attention]

        # Pre-hooks: attention has to get its weights with the arguments.
        handles = [
            part.register_forward_pre_hook(weigh)
            for part in self.attentions
            if isinstance(part, OneLipschitzSelfAttention)
        ]
        if self.last.map is not None:
            handles.append(self.last.map.register_forward_pre_hook(arguments.__setitem__))
        try:
            yield arguments
        finally:
            for handle in handles:
                handle.remove()

    def radius(
        self, arguments: Arguments, mask: Tensor, lost: Leads, everywhere: EncoderBound
    ) -> Tensor:
        """Return `[B]` radii, never below those of the sound bound (`everywhere`) for these texts.

        The arguments are by `listening`, and `lost` is of the same pass.
        """
        reach = None
        if self.last.map is not None:
            (inputs,) = arguments[self.last.map]
            reach = self.last.distance(inputs, mask, lost.labels, lost.leads)

        def proven(bound: EncoderBound) -> Tensor:
            radius = lost.margin / bound.lipschitz
            if reach is not None:
                nearer = (reach - bound.rounding_before) / bound.lipschitz_before
                radius = torch.where(nearer > radius, nearer, radius)
            return radius

        # Start from constants that hold everywhere; local ones may only improve on them.
        best = proven(everywhere)
        gains = [
            AttentionAround(attention, norms.attention, mask, arguments[attention][-1]).gain
            if isinstance(attention, OneLipschitzSelfAttention)
            else None
            for attention, norms in zip(self.attentions, self.norms, strict=True)
        ]
        lengths, distance = mask.sum(dim=1).to(torch.float64), FARTHEST * best
        for _ in range(TRIES if any(gains) else 0):
            # Constants of a ball prove nothing outside it; a smaller ball has smaller constants.
            around = Around(gains, distance.nan_to_num(0.0, 0.0).clamp_min(0.0))
            bound = encoder_bound(self.network, self.norms, lengths, bound="sound", around=around)
            reached = proven(bound)
            inside = torch.minimum(reached, around.distance)
            best = torch.where(inside > best, inside, best)
            # Where the ball was too large, shrink it towards the proven radius.
            distance = reached + (distance - reached).clamp_min(0.0) / 8
        return best
