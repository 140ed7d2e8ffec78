"""Which attention units are masked: by an adversary that learns it, or by rules to compare with.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023: sections
"Adversarial Self-Attention Mechanism" and "VS. Naive Masking". What differs, and why, is in
docs/methods/asa.md.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from layers.gradient_reversal import reverse_gradient
from layers.noise import logistic_pairs

Probabilities = Callable[[], Tensor]
"""The attention weights `[B, H, N, N]` of a layer with nothing masked, for those who ask."""


class Masks:
    """The masks of one pass over a batch, and how much they mask.

    Args:
        real: `[B, N]` bool, True at real tokens.
    """

    def __init__(self, real: Tensor) -> None:
        self.real = real
        self.valid = real.unsqueeze(-1) & real.unsqueeze(-2)
        self.pairs = self.valid.sum(dim=(1, 2))
        self.kept: list[Tensor] = []
        """By layer: `[B]` the share of the pairs of real tokens that are kept; with a gradient for
        what chose them."""

    def __call__(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """`[B, 1 or H, N, N]` in float: 1 for what is kept, in each row at least one real key.

        Args:
            layer: counted from 0.
            hidden: `[B, N, d]`, what the layer is given.
            probabilities: see `Probabilities`.
        """
        keep = self.choose(layer, hidden, probabilities)
        counted = keep.mean(dim=1) if keep.shape[1] > 1 else keep.squeeze(1)
        self.kept.append((counted * self.valid).sum(dim=(1, 2)) / self.pairs)
        return keep

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """What `__call__` returns."""
        # Part of the contract that only a way to choose can fill in; the base class counts.
        raise NotImplementedError

    def masked(self) -> Tensor:
        """`[L]`: the share of the units masked in each layer, a mean over the samples."""
        return torch.stack([1 - kept.detach().mean() for kept in self.kept])


class AttentionAdversary(nn.Module):
    """One query and one key map for each layer; a unit is kept if their noisy product is positive.

    With the logistic noise of the reparameterisation trick (Jang, Gu and Poole, 2017; Maddison,
    Mnih and Teh, 2017) a unit of score s is kept with the probability sigmoid(s). The released
    code adds and subtracts the same noise, which leaves none.

    Args:
        width: of the hidden states.
        layers: number of layers.
        heads: masks per layer; 1 is shared by all attention heads.
        temperature: of the sigmoid whose derivative stands in for that of the step.
        noise: whether the choice is drawn; without, a unit is kept if its score is positive.
        initial_keep: share of the units that are kept before anything is learnt.
        std: of the first weights.
    """

    def __init__(
        self,
        width: int,
        layers: int,
        *,
        heads: int = 1,
        temperature: float = 1.0,
        noise: bool = True,
        initial_keep: float = 0.9,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        if width % heads != 0 or not temperature > 0 or not 0 < initial_keep < 1:
            msg = (
                f"got {heads=} for a width of {width}, {temperature=}, {initial_keep=}, expected "
                "heads that share the width, a positive temperature, and a share between 0 and 1"
            )
            raise ValueError(msg)
        self.heads, self.temperature, self.noise = heads, temperature, noise
        self.query = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.key = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        for linear in (*self.query, *self.key):
            nn.init.normal_(linear.weight, std=std)
        offset = math.log(initial_keep / (1 - initial_keep))
        self.offset = nn.Parameter(torch.full((layers,), offset))

    def scores(self, layer: int, hidden: Tensor) -> Tensor:
        """`[B, heads, N, N]`: the log-odds of each unit to be kept."""
        batch, length, width = hidden.shape
        shape = (batch, length, self.heads, width // self.heads)
        query = self.query[layer](hidden).view(shape).transpose(1, 2)
        key = self.key[layer](hidden).view(shape).transpose(1, 2)
        scaled = query * (width // self.heads) ** -0.5
        scores: Tensor = (scaled @ key.transpose(-1, -2)).float() + self.offset[layer]
        return scores

    def masks(
        self, real: Tensor, seeds: Tensor, *, coefficient: float = 1.0, draw: bool = True
    ) -> "AdversarialMasks":
        """For one pass over a batch.

        Args:
            real: `[B, N]` bool, True at real tokens.
            seeds: `[B]` int64, of the noise; see `layers.noise`.
            coefficient: of the gradient reversal.
            draw: False: no noise in this pass.
        """
        return AdversarialMasks(self, real, seeds, coefficient=coefficient, draw=draw)


class AdversarialMasks(Masks):
    """See `AttentionAdversary.masks`."""

    def __init__(
        self,
        adversary: AttentionAdversary,
        real: Tensor,
        seeds: Tensor,
        *,
        coefficient: float,
        draw: bool,
    ) -> None:
        super().__init__(real)
        self.adversary, self.seeds = adversary, seeds
        self.coefficient, self.draw = coefficient, draw and adversary.noise

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """The adversary's choice; its gradients are reversed, and end there."""
        del probabilities
        adversary = self.adversary
        odds = adversary.scores(layer, hidden.detach())
        if self.draw:
            odds = odds + logistic_pairs(
                self.seeds, odds.shape[-1], heads=adversary.heads, draw=layer
            )
        soft = (odds / adversary.temperature).sigmoid()
        hard = straight(odds.detach(), self.real).to(soft.dtype)
        # The numbers of the step, the derivative of the sigmoid: exactly 0 and 1.
        keep = _Straight.apply(hard, soft)  # type: ignore[no-untyped-call] # of torch
        return reverse_gradient(keep, self.coefficient)


def straight(odds: Tensor, real: Tensor) -> Tensor:
    """`[B, H, N, N]` bool: positive odds, and the greatest of each row among the real keys.

    Args:
        odds: `[B, H, N, N]`.
        real: `[B, N]` bool.
    """
    lowest = torch.finfo(odds.dtype).min
    best = odds.masked_fill(~real[:, None, None, :], lowest).amax(dim=-1, keepdim=True)
    return (odds > 0) | (odds == best)


class _Straight(torch.autograd.Function):
    """The first argument; the gradient goes to the second (Bengio, Leonard, Courville, 2013)."""

    @staticmethod
    def forward(ctx: object, hard: Tensor, soft: Tensor) -> Tensor:
        """The first argument."""
        del ctx, soft
        return hard.view_as(hard)

    @staticmethod
    def backward(ctx: object, *outputs: Tensor) -> tuple[None, Tensor]:
        """The gradient, for the second argument."""
        del ctx
        return None, outputs[0]


Rule = Literal["bernoulli", "magnitude"]


class RuleMasks(Masks):
    """Masks that nobody has learnt (Table 3 of the paper).

    Args:
        rule: `bernoulli` masks each unit with the same probability; `magnitude` the share of the
            units of each sample that have the greatest attention weights, a mean over the heads.
        share: that is masked, from 0 to below 1, by layer or for all of them.
        real: `[B, N]` bool, True at real tokens.
        seeds: `[B]` int64, of the choice.
    """

    def __init__(
        self, rule: Rule, share: float | list[float], *, real: Tensor, seeds: Tensor
    ) -> None:
        super().__init__(real)
        self.rule, self.share, self.seeds = rule, share, seeds

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """By the rule; nothing here has a gradient."""
        share = self.share[layer] if isinstance(self.share, list) else self.share
        with torch.no_grad():
            if self.rule == "bernoulli":
                length = hidden.shape[1]
                odds = logistic_pairs(self.seeds, length, draw=layer)
                # The most probable unit of a row is kept whatever was drawn.
                kept = straight(odds + _log_odds(1 - share), self.real)
            else:
                weights = probabilities().mean(dim=1, keepdim=True).float()
                kept = straight(_smallest(weights, self.valid, self.pairs, share), self.real)
        return kept.to(hidden.dtype if hidden.dtype != torch.float16 else torch.float32)


def _log_odds(share: float) -> float:
    if share <= 0:
        return -math.inf
    return math.inf if share >= 1 else math.log(share / (1 - share))


def _smallest(weights: Tensor, valid: Tensor, pairs: Tensor, share: float) -> Tensor:
    """Odds `[B, 1, N, N]` that are positive for all but this share of the largest weights."""
    flat = weights.masked_fill(~valid.unsqueeze(1), -1.0).flatten(1)
    count = (share * pairs).round().long()
    order = flat.argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    # Within a row that would be masked whole, the smallest weight stays: it has the greatest odds.
    odds = torch.where(rank < count.unsqueeze(1), -flat - 1, 1 - flat)
    return odds.view_as(weights)
