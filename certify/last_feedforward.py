"""The largest loss of a lead by the last feed-forward map and the head, from the order of pairs.

A Lipschitz constant knows nothing of the text. Here the inputs of the last feed-forward map are
those of the text, and only a pair of features that are nearly equal can change its order nearby.
The proof is docs/certificates.md, section 9.
"""

import math

import torch
from torch import Tensor

from certify.lipschitz import UNIT, rounding_of_sums
from layers.encoders import LipschitzBlock, LipschitzClassifier
from layers.norms import spectral_norm_bound

FACTORS = 2.0 ** torch.arange(-2.0, 4.25, 0.25, dtype=torch.float64)
"""Multipliers that are tried, as multiples of the best one of a map without kinks."""
FARTHEST = 8.0
"""Largest distance that is tried, in units of the distance that the norm of the map proves."""
_ROUNDED = 1e-9
"""Covers the rounding of what is computed here; relative to sums of squares."""


class LastFeedForward:
    """The last feed-forward map of a checked network, and the layers after it."""

    def __init__(self, network: LipschitzClassifier) -> None:
        self.head = network.head.weight
        blocks = list(network.encoder.blocks)
        last = blocks[-1] if blocks else None
        self.map = last.feedforward if isinstance(last, LipschitzBlock) else None
        self.centred = last is not None and last.norm is not None
        if self.map is None or self.map.activation.group_size != 2:
            self.map = None
            return
        self.inner = self.map.inner.weight().flatten(0, 1)
        self.outer = self.map.outer.weight().flatten(0, 1)
        self.norm = spectral_norm_bound(self.inner)
        self.gain = self.norm.clamp_min(1) * spectral_norm_bound(self.outer).clamp_min(1)
        size = len(self.inner)
        # How far the measured matrix is from orthogonal.
        apart = self.inner.mT @ self.inner - torch.eye(size).to(self.inner)
        slack = 8 * size * UNIT * self.inner.square().sum()
        self.defect = apart.norm() * (1 + _ROUNDED) + slack

    def distance(self, inputs: Tensor, mask: Tensor, labels: Tensor, leads: Tensor) -> Tensor:
        """Return `[B]` distances that the inputs of the map may move before a lead may reach 0.

        Leads `[B, C]` are below z_y - z_j; those that are not positive give a distance of 0.
        """
        lengths = mask.sum(dim=1).to(inputs.dtype)
        pairs = (inputs @ self.inner.mT)[mask]
        # Distance of each pair to its kink, where maxmin exchanges the two.
        gaps = (pairs[:, 0::2] - pairs[:, 1::2]) / math.sqrt(2)
        sizes = inputs.masked_fill(~mask.unsqueeze(-1), 0.0).flatten(1).norm(dim=1)
        gamma = rounding_of_sums(inputs.shape[-1], lengths) * math.sqrt(inputs.shape[-1])
        moved = 2 * gamma * self.norm * sizes
        rows = mask.nonzero()[:, 0]
        least = torch.full_like(lengths, torch.inf)
        for other in range(leads.shape[1]):
            direction = self.head[labels] - self.head[other]
            if self.centred:
                direction = direction - direction.mean(dim=1, keepdim=True)
            distance = self._until(
                gaps, rows, lengths=lengths, direction=direction, lead=leads[:, other], moved=moved
            )
            least = torch.where(labels == other, least, torch.minimum(least, distance))
        # Sums of so many terms that their rounding is not covered prove nothing here.
        return torch.where(gamma * self.gain < _ROUNDED / 10, least, torch.zeros_like(least))

    def _until(
        self,
        gaps: Tensor,
        rows: Tensor,
        *,
        lengths: Tensor,
        direction: Tensor,
        lead: Tensor,
        moved: Tensor,
    ) -> Tensor:
        """Return `[B]`: the distance for one direction `[B, d]` of the head.

        Gaps are `[M, d / 2]` differences of the pairs of all real tokens, over the root of 2; rows
        `[M]` the text of each; `moved` `[B]` the rounding error of all pairs of a text together.
        """
        size = direction.norm(dim=1)
        lead = lead - self.gain * size * moved
        lead = lead * (1 - FARTHEST * (self.defect / 2 + _ROUNDED))
        roots = lengths.sqrt().unsqueeze(1)
        own, sent = direction @ self.inner.mT / roots, direction @ self.outer / roots
        # Of a pair: its sum, its difference before the map, and its difference after it.
        sums = (own + sent).view(len(own), -1, 2).sum(dim=2) / math.sqrt(8)
        before = (own[:, 0::2] - own[:, 1::2]) / math.sqrt(8)
        after = (sent[:, 0::2] - sent[:, 1::2]) / math.sqrt(8)
        kink = (-2 * after).clamp_min(0.0)[rows]
        order = torch.where(gaps >= 0, 1.0, -1.0)
        slope = -(order * before[rows] + after[rows])
        straight = slope.square()
        turned = (slope - kink).square()

        def by_text(values: Tensor) -> Tensor:
            return torch.zeros_like(lengths).index_add_(0, rows, values.sum(dim=1))

        rest = lengths * sums.square().sum(dim=1)
        total = rest + by_text(straight)
        slack = _ROUNDED * (total + by_text(kink.square()))
        best = torch.zeros_like(lengths)
        scale = total / (2 * lead).clamp_min(torch.finfo(lead.dtype).tiny)
        # Lagrangian dual: each multiplier gives a valid bound; take the best of a grid.
        for factor in FACTORS.tolist():
            multiplier = (factor * scale).clamp_min(torch.finfo(lead.dtype).tiny)
            quarter = 1 / (4 * multiplier)
            each = torch.maximum(
                straight * quarter[rows].unsqueeze(1),
                turned * quarter[rows].unsqueeze(1) - kink * gaps.abs(),
            )
            lost = (rest + slack * 4) * quarter + by_text(each)
            best = torch.maximum(best, ((lead - lost).clamp_min(0.0) / multiplier).sqrt())
        best = ((best - moved) / self.norm).clamp_min(0.0)
        # `defect` and the rest were allowed for up to here.
        best = torch.minimum(best, FARTHEST * lead / size)
        return best.nan_to_num(nan=0.0, posinf=0.0).clamp_min(0.0) * (1 - _ROUNDED)
