"""Radii by what a network does around one text: docs/certificates.md, section 9."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from certify.last_feedforward import LastFeedForward
from certify.lipschitz import Around, BlockNorms, EncoderBound, Gain, encoder_bound
from certify.local_attention import AttentionAround
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.encoders import LipschitzBlock, LipschitzClassifier

FARTHEST = 1.6
"""The first distance that is tried, in units of the radius by constants that hold everywhere."""
TRIES = 4


Seen = dict[nn.Module, tuple[Any, ...]]
"""The arguments of parts of a network in one pass; of attention, behind them its `Weighed`."""


class Leads(NamedTuple):
    """The leads of a text that a perturbation would have to take.

    Attributes:
        labels: `[B]` the predicted classes.
        leads: `[B, C]`, below z_y - z_j.
        margin: `[B]` the least lead over the norm of its direction.
    """

    labels: Tensor
    leads: Tensor
    margin: Tensor


class AroundText:
    """The parts of a network around the texts of a batch.

    Args:
        network: in float64 and evaluation mode, that `certify.parts.check_network` has passed.
        norms: of its blocks.
    """

    def __init__(self, network: LipschitzClassifier, norms: Sequence[BlockNorms]) -> None:
        self.network, self.norms = network, norms
        self.last = LastFeedForward(network)
        self.attentions = [
            block.attention for block in network.encoder.blocks if isinstance(block, LipschitzBlock)
        ]

    @contextmanager
    def listening(self) -> Iterator[Seen]:
        """Keeps the arguments of each attention, and of the last map, of a pass in the context."""
        seen: Seen = {}

        def weigh(attention: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
            assert isinstance(attention, OneLipschitzSelfAttention)  # as selected below
            seen[attention] = (*arguments, attention.weigh(*arguments))
            # In place of the arguments: the pass takes these weights, and computes no others.
            return seen[attention]

        handles = [
            part.register_forward_pre_hook(weigh)
            for part in self.attentions
            if isinstance(part, OneLipschitzSelfAttention)
        ]
        if self.last.map is not None:
            handles.append(self.last.map.register_forward_pre_hook(seen.__setitem__))
        try:
            yield seen
        finally:
            for handle in handles:
                handle.remove()

    def radius(
        self,
        seen: Seen,
        mask: Tensor,
        lost: Leads,
        everywhere: EncoderBound,
    ) -> Tensor:
        """`[B]` radii, never below those by the constants that hold everywhere.

        Args:
            seen: by `listening`.
            mask: `[B, N]`.
            lost: of the same pass.
            everywhere: the sound bound for these lengths.
        """
        reach = None
        if self.last.map is not None:
            (inputs,) = seen[self.last.map]
            reach = self.last.distance(inputs, mask, lost.labels, lost.leads)

        def proven(bound: EncoderBound) -> Tensor:
            found = lost.margin / bound.lipschitz
            if reach is not None:
                nearer = (reach - bound.rounding_before) / bound.lipschitz_before
                found = torch.where(nearer > found, nearer, found)
            return found

        best = proven(everywhere)
        gains = [
            self._gain(attention, norms, seen, mask)
            for attention, norms in zip(self.attentions, self.norms, strict=True)
        ]
        lengths, distance = mask.sum(dim=1).to(torch.float64), FARTHEST * best
        for _ in range(TRIES if any(gains) else 0):
            # Constants of a ball prove nothing outside it; a smaller ball has smaller constants.
            around = Around(gains, distance.nan_to_num(0.0, 0.0).clamp_min(0.0))
            bound = encoder_bound(self.network, self.norms, lengths, bound="sound", around=around)
            found = proven(bound)
            inside = torch.minimum(found, around.distance)
            best = torch.where(inside > best, inside, best)
            distance = found + (distance - found).clamp_min(0.0) / 8
        return best

    def _gain(
        self,
        attention: nn.Module,
        norms: BlockNorms,
        seen: Seen,
        mask: Tensor,
    ) -> Gain | None:
        if not isinstance(attention, OneLipschitzSelfAttention):
            return None
        x, _, radius, weighed = seen[attention]
        return AttentionAround(attention, norms.attention, x, mask, radius, weighed=weighed).gain
