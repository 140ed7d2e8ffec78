"""The Lipschitz constant of additive attention around its inputs for one text.

Theorem 1 knows of its inputs only the ball that all tokens lie in. Around the inputs of a text the
attention weights and the spread of the values are known, and they change little within a distance.
The proof is docs/certificates.md, section 9, Theorem 5.
"""

import math

import torch
from torch import Tensor

from certify.lipschitz import rounding_of_sums
from layers.attention.bounds import AttentionNorms, mixing_norm
from layers.attention.one_lipschitz import OneLipschitzSelfAttention, Weighed

_ROUNDED = 1e-9
"""Covers the rounding of weights, logits and values, in units of each."""
_FINE = 1e-11
"""Relative rounding of a layer up to which `_ROUNDED` is known to cover it."""


class AttentionAround:
    """One attention layer around its inputs for the texts of a batch.

    The layer is in float64 and evaluation mode, the norms of its weights are measured, and
    `weighed` is of its forward pass with the mask `[B, N]`.
    """

    def __init__(
        self,
        attention: OneLipschitzSelfAttention,
        norms: AttentionNorms,
        mask: Tensor,
        weighed: Weighed,
    ) -> None:
        self.norms, self.temperature = norms, 2 * attention.alpha_1
        value, logits, weights = weighed
        self.width, self.lengths = attention.width, mask.sum(dim=1).to(value.dtype)
        # Offset heads have constant weights: only the other heads mix by scores.
        value = value[:, attention.offset_heads :]
        padding = ~mask[:, None, None, :]
        rows = mask[:, None, :]
        weights = weights * rows.unsqueeze(-1)
        # `[B, H, N, N]`, from each mean to each value, without the cancellation of a product.
        apart = torch.cdist(
            weights @ value, value, compute_mode="donot_use_mm_for_euclid_dist"
        ).square()
        highest = weights.amax(dim=-1)
        spread = (weights * apart).sum(dim=-1)
        span = logits.masked_fill(padding, -torch.inf).amax(dim=-1)
        span = span - logits.masked_fill(padding, torch.inf).amin(dim=-1)
        # Of Theorem 5: `[B]` o and the roots of the largest V_i and p_i, `[B, H]` S_h and C_h.
        self.oscillation = span.masked_fill(~rows, 0.0).amax(dim=(1, 2))
        self.spread, self.highest = spread.amax(dim=(1, 2)).sqrt(), highest.amax(dim=(1, 2)).sqrt()
        self.keys = (highest * spread).sum(dim=-1).sqrt()
        columns = (highest.unsqueeze(-1) * weights).sum(dim=2)
        self.columns = columns.amax(dim=2).sqrt()

    def gain(self, distance: Tensor, radius: Tensor) -> Tensor:
        """Return `[B]` constants K of |alpha_2 (F(X') - F(X))| <= K |X' - X|, for X' near X.

        The distance `[B]` is the largest |X' - X| in Frobenius norm, the radius `[B]` a bound on
        the norm of every token, of X and of X'.
        """
        norms = self.norms
        sizes = (torch.as_tensor(n) for n in (norms.query, norms.key, norms.value))
        longest = torch.stack(list(sizes)).amax().clamp_min(1)
        sharpness = 1 + 2 * norms.score * longest * radius / self.temperature
        of_query, of_key = norms.kappa * norms.query, norms.score * norms.key
        turned = ((2 * of_query + of_key) ** 2 + of_key**2) ** 0.5
        grown = turned / self.temperature * distance
        oscillation = self.oscillation + grown + _ROUNDED * sharpness
        mixing = norms.value * mixing_norm(oscillation, self.lengths)
        slack = _ROUNDED * longest * radius
        spread = self.spread + slack
        keys = self.keys + (slack * self.lengths.sqrt()).unsqueeze(1)
        moved = norms.value * distance
        queried = (spread, (grown / 2).exp() * (spread + self.highest * moved))
        far = grown.exp() * (keys + self.columns * moved.unsqueeze(1)).amax(dim=1)
        keyed = (keys.amax(dim=1), far)
        # Both grow with the distance as convex functions: their mean along the way is at most that
        # of the two ends.
        constant = mixing + (of_query * sum(queried) + of_key * sum(keyed)) / (2 * self.temperature)
        error = rounding_of_sums(self.width, self.lengths) * math.sqrt(self.width)
        fine = error * sharpness * longest < _FINE
        return torch.where(fine, constant * (1 + _ROUNDED), torch.inf)
