"""How the attention of an encoder is masked while it is trained: the settings, and what they make.

Shared by fine-tuning (`ASA`) and pre-training (`ASAPretraining`). The derivation of the signs is in
docs/methods/asa.md.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from layers.attention.masking.biased import BiasedAttention
from layers.attention.masking.learnt_masks import AttentionAdversary, Masks, RuleMasks
from layers.gradient_reversal import reversal_coefficient
from text import check_choice, check_range

Masking = Literal["adversarial", "bernoulli", "scheduled", "magnitude", "none"]
Penalty = Literal["released", "mean", "sum"]
Reversal = Literal["constant", "rising"]

SWITCH = 1e4
"""What the released code adds to the score of a unit when it keeps it (`(1 - mask) * -10000`)."""
POINTS = 20
"""Parts of a training for which the share of the masked units is kept."""


class AttentionMasking(nn.Module):
    """Decides what is masked in a pass over a batch, and what that costs the adversary.

    Args:
        masking: `adversarial` learns it; the others are rules, see `RuleMasks`: `bernoulli` and
            `magnitude` with one share, `scheduled` Bernoulli with a share for each part of the
            training; `none` masks nothing.
        tau: of the penalty.
        penalty: see `penalty`.
        temperature: see `AttentionAdversary`; so are noise, per_head and initial_keep.
        noise: whether masks are drawn.
        per_head: a mask for each attention head.
        initial_keep: share of the units kept at the beginning.
        reversal: coefficient of the gradient reversal, or where it rises to.
        reversal_schedule: `constant`, or `rising` as in Ganin and Lempitsky (2015).
        share: that the rules mask.
        schedule: shares at equal distances from the beginning to the end of training.

    Raises:
        ValueError: settings that make no sense, named with what was expected.
    """

    def __init__(
        self,
        masking: Masking,
        *,
        tau: float,
        penalty: Penalty,
        temperature: float,
        noise: bool,
        per_head: bool,
        initial_keep: float,
        reversal: float,
        reversal_schedule: Reversal,
        share: float,
        schedule: Sequence[float] | None,
    ) -> None:
        super().__init__()
        check_choice("masking", masking, get_args(Masking))
        check_choice("penalty", penalty, get_args(Penalty))
        check_choice("reversal_schedule", reversal_schedule, get_args(Reversal))
        check_range({"tau": tau, "reversal": reversal}, least=0)
        check_range({"temperature": temperature}, above=0)
        check_range({"initial_keep": initial_keep}, above=0, below=1)
        points = {f"schedule[{i}]": one for i, one in enumerate(schedule or ())}
        check_range({"share": share, **points}, least=0, below=1)
        if schedule is not None and len(schedule) < 2:
            msg = f"got schedule={schedule}, expected at least two shares"
            raise ValueError(msg)
        if (masking == "scheduled") != (schedule is not None):
            msg = (
                f"got {masking=} and schedule={schedule}, expected a schedule for masking "
                "scheduled, and for no other"
            )
            raise ValueError(msg)
        self.kind, self.tau, self.penalty_form = masking, tau, penalty
        self.temperature, self.noise, self.per_head = temperature, noise, per_head
        self.initial_keep = initial_keep
        self.reversal, self.reversal_schedule = reversal, reversal_schedule
        self.share = share
        self.schedule = None if schedule is None else [float(one) for one in schedule]

    @property
    def unused(self) -> dict[str, str]:
        """Settings of a method that have no effect with this masking: by name, and beside what."""
        learnt = ["tau", "penalty", "temperature", "noise", "per_head", "initial_keep", "reversal"]
        names = ["reversal_schedule", "adversary_lr_factor", *learnt]
        if self.kind == "adversarial":
            names = []
        if self.kind not in ("bernoulli", "magnitude"):
            names.append("share")
        if self.kind == "none":
            names += ["alpha", "symmetric", "shared_dropout"]
        return dict.fromkeys(names, f"masking={self.kind}")

    def build(self, attention: BiasedAttention, width: int, heads: int) -> None:
        """Make the adversary, if there is one, and the curve of what is masked.

        Args:
            attention: of the encoder.
            width: of its hidden states.
            heads: of its attention.
        """
        if self.kind == "none":
            return
        if self.kind == "adversarial":
            self.adversary = AttentionAdversary(
                width,
                attention.layers,
                heads=heads if self.per_head else 1,
                temperature=self.temperature,
                noise=self.noise,
                initial_keep=self.initial_keep,
            )
        # Sum and number of the shares masked in each part of the training.
        self.register_buffer("curve", torch.zeros(2, POINTS))

    curve: Tensor

    @property
    def masked_over_training(self) -> list[float]:
        """The share of the units masked in each part of the training that is over."""
        return [float(part / n) for part, n in self.curve.T if n > 0]

    def masks(
        self, real: Tensor, seeds: Tensor, *, progress: float = 1.0, draw: bool = True
    ) -> Masks | None:
        """For one pass over a batch; None where nothing is ever masked.

        Args:
            real: `[R, N]` bool, True at real tokens.
            seeds: `[R]` int64.
            progress: share of the training that is over.
            draw: False: without the adversary's noise.
        """
        if self.kind == "none":
            return None
        if self.kind == "adversarial":
            rising = self.reversal_schedule == "rising"
            factor = reversal_coefficient(progress) if rising else 1.0
            return self.adversary.masks(real, seeds, coefficient=self.reversal * factor, draw=draw)
        rule: Literal["bernoulli", "magnitude"]
        rule = "magnitude" if self.kind == "magnitude" else "bernoulli"
        share = self.share if self.schedule is None else interpolated(self.schedule, progress)
        return RuleMasks(rule, share, real=real, seeds=seeds)

    def penalty(self, masks: Masks, units: Tensor | float = 1.0) -> Tensor:
        """Tau * L_c, a scalar: what the adversary, whose gradients are reversed, keeps high.

        `released`: tau^2 * the number of units that are kept, summed over layers, a mean over rows,
        as the released code has it; divided by 10,000, because there the divergence reaches a unit
        10,000 times as strongly as here (`SWITCH`), and by `units`, because there it is a sum over
        a sample's units. So the adversary weighs both as it does there, with the same tau.

        `mean`: tau * the share that is kept, a mean over rows and layers. `sum`: tau * the number,
        as the paper prints it.

        Args:
            masks: of a pass.
            units: of a sample, a mean: 1, or the number of its words if each has a divergence.
        """
        kept = torch.stack(masks.kept)
        if self.penalty_form == "mean":
            return self.tau * kept.mean()
        number = (kept * masks.pairs).sum(dim=0).mean()
        if self.penalty_form == "sum":
            return self.tau * number
        return self.tau**2 * number / (SWITCH * units)

    @torch.no_grad()
    def note(self, share: Tensor, progress: float) -> None:
        """Add a step to the curve of what is masked.

        Args:
            share: of the units, in all layers.
            progress: share of the training that was over.
        """
        part = min(int(progress * POINTS), POINTS - 1)
        self.curve[0, part] += share
        self.curve[1, part] += 1


def interpolated(points: Sequence[float], progress: float) -> float:
    """The value at a share of the way between the first and the last of points at equal distances.

    Args:
        points: at least two.
        progress: from 0 to 1.
    """
    place = min(max(progress, 0.0), 1.0) * (len(points) - 1)
    left = min(bisect_right(range(len(points)), place) - 1, len(points) - 2)
    return points[left] + (place - left) * (points[left + 1] - points[left])
