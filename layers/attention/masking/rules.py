"""Masks by fixed rules, a baseline for those of an adversary.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023: section "VS. Naive
Masking".
"""

import math
from typing import Literal

import torch
from torch import Tensor

from layers.attention.masking.masks import Masks, Probabilities, straight
from layers.noise import logistic_pairs

Rule = Literal["bernoulli", "magnitude"]


class RuleMasks(Masks):
    """Masks by a fixed rule (Table 3 of the paper).

    Args:
        rule: `bernoulli` masks each unit with the same probability; `magnitude` masks the units of
            each sample with the greatest attention weights, averaged over the heads.
        share: share that is masked, from 0 to below 1: a number, one by layer, or `[L, B]`.
        real: `[B, N]` bool, True at real tokens.
        seeds: `[B]` int64, of the choice.

    Raises:
        ValueError: another share.
    """

    def __init__(
        self, rule: Rule, share: float | list[float] | Tensor, *, real: Tensor, seeds: Tensor
    ) -> None:
        super().__init__(real)
        shares = torch.as_tensor(share)
        if not bool(((shares >= 0) & (shares < 1)).all()):
            msg = f"got {share=} to be masked, expected numbers from 0 to below 1"
            raise ValueError(msg)
        self.rule, self.share, self.seeds = rule, share, seeds

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """Apply the rule; nothing here has a gradient."""
        share = self.share[layer] if isinstance(self.share, list | Tensor) else self.share
        with torch.no_grad():
            if self.rule == "bernoulli":
                length = hidden.shape[1]
                odds = logistic_pairs(self.seeds, length, draw=layer)
                # The most probable unit of a row is kept whatever was drawn.
                keep = straight(odds.add_(_log_odds(1 - share)), self.keys)
            else:
                weights = probabilities().mean(dim=1, keepdim=True).float()
                keep = straight(_smallest(weights, self.valid, share), self.keys)
        return keep.float()


def _log_odds(share: float | Tensor) -> float | Tensor:
    """Return log-odds, of `[B]` shares as `[B, 1, 1, 1]`."""
    if isinstance(share, Tensor):
        return share.logit()[:, None, None, None]
    return math.inf if share >= 1 else math.log(share / (1 - share))


def _smallest(weights: Tensor, valid: Tensor, share: float | Tensor) -> Tensor:
    """Return odds `[B, 1, N, N]`, positive for all but this share of the largest weights."""
    flat = weights.masked_fill(~valid.unsqueeze(1), -1.0).flatten(1)
    count = (share * valid.sum(dim=(1, 2))).round().long()
    # Stable: of equal weights the first are the largest, on every device.
    order = flat.argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    # In a row without positive odds, `straight` keeps the greatest: that of the smallest weight.
    odds = torch.where(rank < count.unsqueeze(1), -1 - flat, 2 - flat)
    return odds.view_as(weights)
