"""Attention masks that an adversary learns.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023: section
"Adversarial Self-Attention Mechanism". What differs, and why, is in docs/methods/asa.md.
"""

import math

import torch
from torch import Tensor, nn

from layers.attention.masking.masks import Masks, Probabilities, straight
from layers.attention.masking.rules import RuleMasks
from layers.gradient_reversal import reverse_gradient
from layers.noise import logistic_pairs

__all__ = ["AdversarialMasks", "AttentionAdversary", "Masks", "Probabilities", "RuleMasks"]


class AttentionAdversary(nn.Module):
    """One query and one key map for each layer; a unit is kept if their noisy product is positive.

    With the logistic noise of the reparameterisation trick (Jang, Gu and Poole, 2017; Maddison,
    Mnih and Teh, 2017) a unit of score s is kept with the probability sigmoid(s). The released
    code adds and subtracts the same noise, which leaves none.

    Args:
        width: width of the hidden states.
        layers: number of layers.
        heads: masks per layer; 1 is shared by all attention heads.
        temperature: of the sigmoid, whose derivative replaces that of the step.
        noise: draw the choice; without, a unit is kept if its score is positive.
        initial_keep: share of the units that are kept before the adversary is trained; methods set
            its default, so that there is only one.
        std: standard deviation of the first weights.
    """

    def __init__(
        self,
        width: int,
        layers: int,
        *,
        heads: int = 1,
        initial_keep: float,
        temperature: float = 1.0,
        noise: bool = True,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads != 0 or not temperature > 0 or not 0 < initial_keep < 1:
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
        # The log-odds of a unit whose query and key are orthogonal.
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
        """Return the masks of one pass over a batch with real tokens `[B, N]`.

        Seeds `[B]` int64 are those of the noise, see `layers.noise`, which `draw=False` leaves out;
        the coefficient is that of the gradient reversal.
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
        """Return the adversary's choice, with reversed gradients and none for the hidden states."""
        del probabilities
        adversary = self.adversary
        odds = adversary.scores(layer, hidden.detach())
        if self.draw:
            length = hidden.shape[1]
            odds = odds + logistic_pairs(self.seeds, length, heads=adversary.heads, draw=layer)
        soft = (odds / adversary.temperature).sigmoid()
        hard = straight(odds.detach(), self.keys).to(soft.dtype)
        # Straight-through: values of the step, exactly 0 and 1, with the gradient of the sigmoid.
        keep = _Straight.apply(hard, soft)  # type: ignore[no-untyped-call] # of torch
        return reverse_gradient(keep, self.coefficient)


class _Straight(torch.autograd.Function):
    """The first argument; the gradient goes to the second (Bengio, Leonard, Courville, 2013)."""

    @staticmethod
    def forward(ctx: object, hard: Tensor, soft: Tensor) -> Tensor:
        """Return the first argument."""
        del ctx, soft
        return hard.view_as(hard)

    @staticmethod
    def backward(ctx: object, *outputs: Tensor) -> tuple[None, Tensor]:
        """Return the gradient, for the second argument."""
        del ctx
        return None, outputs[0]
