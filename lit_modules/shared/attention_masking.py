"""Masks the attention of an encoder in training: the settings, and the masks.

Shared by fine-tuning (`ASA`) and pre-training (`ASAPretraining`). The derivation of the signs is in
docs/methods/asa.md.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin

import torch
from torch import Tensor, nn

from layers.attention.masking.biased import BiasedAttention
from layers.attention.masking.learnt_masks import AttentionAdversary, Masks, RuleMasks
from layers.gradient_reversal import reversal_coefficient
from text import check_choice, check_range

SWITCH = 1e4
"""Added by the released code to the score of a unit that it keeps (`(1 - mask) * -10000`)."""
POINTS = 20
"""Number of parts of a training whose share of masked units is recorded."""


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """The settings of masks of attention while training.

    Attributes:
        kind: kind of masks. adversarial: learnt, the method itself; its baselines (Table 3):
            bernoulli, scheduled (Bernoulli with a schedule), magnitude; none: plain training.
        tau: weight of the penalty for masked units; the lower, the more the adversary masks.
        penalty: form of the penalty. released: tau^2 times the number of units that are kept, in
            all layers, with the weight relative to the divergence of the released code: the paper's
            tau are for this form; mean: tau times the share that is kept; sum: tau times the
            number.
        temperature: temperature of the sigmoid whose derivative replaces that of the masks.
        noise: draw the masks (logistic noise); else mask units with a negative score.
        per_head: make a mask for each attention head, not one for all.
        initial_keep: share of the units that are kept before the adversary is trained.
        reversal: coefficient of the gradient reversal, or the value that it rises to. Without
            effect on Adam, whose steps do not depend on the size of a gradient.
        reversal_schedule: course of that coefficient: constant, or rising from 0 (Ganin and
            Lempitsky, 2015).
        share: share of the units that bernoulli and magnitude mask.
        schedule: shares that scheduled masks, at equal distances from the beginning to the end of
            training, such as those that ASA has masked (see docs/methods/asa.md).
    """

    kind: Literal["adversarial", "bernoulli", "scheduled", "magnitude", "none"] = "adversarial"
    tau: float = 0.3
    penalty: Literal["released", "mean", "sum"] = "released"
    temperature: float = 1.0
    noise: bool = True
    per_head: bool = False
    initial_keep: float = 0.8
    reversal: float = 1.0
    reversal_schedule: Literal["constant", "rising"] = "constant"
    share: float = 0.1
    schedule: list[float] | None = None

    def __post_init__(self) -> None:
        """Check the settings; an error names the setting."""
        for field in fields(self):
            if get_origin(field.type) is Literal:
                check_choice(
                    f"masking.{field.name}", getattr(self, field.name), get_args(field.type)
                )
        check_range({"masking.tau": self.tau, "masking.reversal": self.reversal}, least=0)
        check_range({"masking.temperature": self.temperature}, above=0)
        check_range({"masking.initial_keep": self.initial_keep}, above=0, below=1)
        points = {f"masking.schedule[{i}]": share for i, share in enumerate(self.schedule or ())}
        check_range({"masking.share": self.share, **points}, least=0, below=1)
        if self.schedule is not None and len(self.schedule) < 2:
            msg = f"got masking.schedule={self.schedule}, expected at least two shares"
            raise ValueError(msg)
        if (self.kind == "scheduled") != (self.schedule is not None):
            msg = (
                f"got masking.kind={self.kind!r} and masking.schedule={self.schedule}, expected a "
                "schedule for kind scheduled, and for no other"
            )
            raise ValueError(msg)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        names = ["share"] if self.kind not in ("bernoulli", "magnitude") else []
        if self.kind != "adversarial":
            names += ["tau", "penalty", "temperature", "noise", "per_head", "initial_keep"]
            names += ["reversal", "reversal_schedule"]
        return dict.fromkeys(names, f"masking.kind={self.kind}")

    @property
    def lasting(self) -> dict[str, str]:
        """Return the settings that need the length of the run, each with a value that does not."""
        if self.kind == "scheduled":
            return {"kind": "bernoulli"}
        rises = self.kind == "adversarial" and self.reversal_schedule == "rising"
        return {"reversal_schedule": "constant"} if rises else {}

    @property
    def divisor(self) -> float:
        """The number by which the adversary's objective is divided."""
        return SWITCH if self.penalty == "released" else 1.0


class AttentionMasking(nn.Module):
    """Makes the masks of a pass over a batch, and the penalty of the adversary for them.

    `adversarial` learns the masks; the other kinds are rules, see `RuleMasks`: `bernoulli` and
    `magnitude` with one share, `scheduled` Bernoulli with a share for each part of the training;
    `none` masks nothing.
    """

    def __init__(self, settings: MaskingSettings) -> None:
        super().__init__()
        self.settings = settings
        self.kind = settings.kind

    def build(self, attention: BiasedAttention, width: int, heads: int) -> None:
        """Make the adversary, if there is one, and the curve of masked shares.

        `width` is that of the hidden states of the encoder, `heads` those of its attention.
        """
        if self.kind == "none":
            return
        if self.kind == "adversarial":
            self.adversary = AttentionAdversary(
                width,
                attention.layers,
                heads=heads if self.settings.per_head else 1,
                temperature=self.settings.temperature,
                noise=self.settings.noise,
                initial_keep=self.settings.initial_keep,
            )
        # Sum and number of the shares masked in each part of the training.
        self.register_buffer("curve", torch.zeros(2, POINTS))

    curve: Tensor

    @property
    def masked_over_training(self) -> list[float]:
        """The share of the masked units in each completed part of the training."""
        return [float(part / n) for part, n in self.curve.T if n > 0]

    def masks(
        self, real: Tensor, seeds: Tensor, *, progress: float = 1.0, draw: bool = True
    ) -> Masks | None:
        """Return the masks of one pass over a batch; None if this kind never masks.

        `real` is `[R, N]` bool, True at real tokens, `seeds` `[R]` int64, `progress` the completed
        share of the training. Without `draw`, the adversary has no noise.
        """
        if self.kind == "none":
            return None
        if self.kind == "adversarial":
            coefficient = self.settings.reversal
            if self.settings.reversal_schedule == "rising":
                coefficient *= reversal_coefficient(progress)
            return self.adversary.masks(real, seeds, coefficient=coefficient, draw=draw)
        rule: Literal["bernoulli", "magnitude"]
        rule = "magnitude" if self.kind == "magnitude" else "bernoulli"
        share = self.settings.share
        if self.settings.schedule is not None:
            share = interpolate(self.settings.schedule, progress)
        return RuleMasks(rule, share, real=real, seeds=seeds)

    def penalty(self, masks: Masks, units: Tensor | float = 1.0) -> Tensor:
        """Return tau * L_c, a scalar; the adversary, with reversed gradients, maximises it.

        `released`: tau^2 * the number of units that are kept, summed over layers, a mean over rows,
        as in the released code, with its weight relative to the divergence. `mean`: tau * the share
        that is kept, a mean over rows and layers. `sum`: tau * the number, as printed in the paper.

        `units` is the mean number of units of a sample: 1, or its words if each has a divergence.
        """
        shares = torch.stack(masks.kept)  # [L, B]
        if self.settings.penalty == "mean":
            return self.settings.tau * shares.mean()
        number = (shares * masks.units).sum(dim=0).mean()
        if self.settings.penalty == "sum":
            return self.settings.tau * number
        # In the released code the gradient of the divergence at a unit is 10,000 times as large as
        # here, and the divergence is a sum over the units of a sample.
        return self.settings.tau**2 * number / (SWITCH * units)

    @torch.no_grad()
    def note(self, share: Tensor, progress: float) -> None:
        """Add the masked share of a step, in all layers, to the curve; progress is from 0 to 1."""
        # Progress 1 belongs to the last part.
        part = min(int(progress * POINTS), POINTS - 1)
        self.curve[0, part] += share
        self.curve[1, part] += 1


def interpolate(points: Sequence[float], progress: float) -> float:
    """Interpolate linearly between two or more points at equal distances from 0 to 1."""
    position = min(max(progress, 0.0), 1.0) * (len(points) - 1)
    # At progress 1, `bisect_right` is past the last interval.
    i = min(bisect_right(range(len(points)), position) - 1, len(points) - 2)
    return points[i] + (position - i) * (points[i + 1] - points[i])
