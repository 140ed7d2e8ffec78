"""The training objective of certified classifiers: accuracy, and a large certified radius."""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor
from torch.nn import functional

from certify import signed_margins
from lit_modules.shared.settings import within
from lit_modules.shared.weight_schedule import CONSTANT, WeightSchedule
from text import check_choice, check_range

Loss = Literal["cross_entropy", "hinge"]
Margin = Literal["paper", "pairwise"]


@dataclass(frozen=True, kw_only=True)
class RadiusObjective:
    """Cross-entropy minus gamma times a margin reward, or a hinge on the radius.

    `cross_entropy` (OLSA paper, section 5.1, after Singla et al., 2022): CE - gamma ReLU(margin).
    The reward has no upper limit: a model may give up its smaller class to earn more on the larger
    one. `margin_cap` limits what one sample can earn.

    `hinge`: max(0, target_radius - signed radius), ours: nothing to gain beyond the target.

    Attributes:
        loss: loss of the classes, without the reward.
        gamma: final weight of the reward.
        schedule: course of gamma; of the target radius for the hinge.
        margin: margin that is rewarded. `paper`: difference of logits / sqrt(2), which a larger
            head inflates for free; `pairwise`: the signed radius itself.
        margin_cap: largest reward of a sample, in units of the margin; None for no limit.
        target_radius: radius from which on the hinge loss is zero, at the end of the schedule.
    """

    loss: Loss = "cross_entropy"
    gamma: float = 0.0
    schedule: WeightSchedule = CONSTANT
    margin: Margin = "pairwise"
    margin_cap: float | None = None
    target_radius: float = 2.0

    def __post_init__(self) -> None:
        """Check the settings."""
        for name, choices in (("loss", Loss), ("margin", Margin)):
            check_choice(f"objective.{name}", getattr(self, name), get_args(choices))
        check_range({"objective.gamma": self.gamma}, least=0)
        check_range({"objective.target_radius": self.target_radius}, above=0)
        check_range({"objective.margin_cap": self.margin_cap}, above=0)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        schedule = within("schedule", self.schedule.unused)
        if self.loss == "hinge":
            return (
                dict.fromkeys(("gamma", "margin", "margin_cap"), "objective.loss=hinge") | schedule
            )
        if not self.gamma:
            names = ("margin", "margin_cap", *within("schedule", vars(self.schedule)))
            schedule = dict.fromkeys(names, "objective.gamma=0")
        return {"target_radius": "objective.loss=cross_entropy"} | schedule

    @property
    def lasting(self) -> dict[str, str]:
        """Return the settings that need the length of the run, each with a value that does not."""
        rises = self.loss == "hinge" or self.gamma > 0
        return within("schedule", self.schedule.lasting) if rises else {}

    def current(self, progress: float) -> dict[str, float]:
        """Return the scheduled weight by name after a share `progress` (0 ... 1) of the run."""
        name = "target_radius" if self.loss == "hinge" else "gamma"
        return {name: float(getattr(self, name)) * self.schedule.factor(progress)}

    @property
    def plain(self) -> bool:
        """True if the objective is plain cross-entropy, without a reward."""
        return self.loss == "cross_entropy" and self.gamma == 0

    def __call__(self, logits: Tensor, labels: Tensor, head: Tensor, *, progress: float) -> Tensor:
        """`[B]`: the loss of each sample, from logits `[B, C]` and labels `[B]`.

        `head` is its weight `[C, d]`, on features of Lipschitz constant 1; `progress` is the
        completed share of the run.
        """
        (weight,) = self.current(progress).values()
        if self.loss == "hinge":
            return functional.relu(weight - signed_margins(logits, labels, head))
        loss, gamma = functional.cross_entropy(logits, labels, reduction="none"), weight
        if gamma == 0:
            return loss
        if self.margin == "paper":
            margin = signed_margins(logits, labels, None) / 2**0.5
        else:
            margin = signed_margins(logits, labels, head)
        reward = functional.relu(margin)
        # A sample with an unlimited reward could outweigh errors on others.
        if self.margin_cap is not None:
            reward = reward.clamp_max(self.margin_cap)
        return loss - gamma * reward
