"""Settings of the optimiser and of its learning rate, and changes of them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from lit_modules.shared.lightning_base import LRSchedulerCallable, OptimizerCallable
from lit_modules.shared.schedule import Decay, learning_rate_factor


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """The settings of the optimiser and of its learning rate.

    Attributes:
        optimizer: optimiser of all trainable parameters.
        lr_scheduler: scheduler that is stepped once an epoch, instead of warmup and decay.
        warmup: share of all steps over which the learning rate rises from zero, or, above 1, their
            number.
        decay: shape of the decrease to zero after the warm-up.
    """

    optimizer: OptimizerCallable = torch.optim.AdamW
    lr_scheduler: LRSchedulerCallable | None = None
    warmup: float = 0.0
    decay: Decay = "none"

    def __post_init__(self) -> None:
        """Check the settings now; torch would check them only after the corpus has been read.

        Raises:
            ValueError: a setting that is out of its range, or that torch refuses.
        """
        learning_rate_factor(0, warmup=self.warmup, decay=self.decay)
        if isinstance(self.optimizer, type) and self.lr_scheduler is None:
            return  # its defaults; the first optimiser of a process loads torch's compiler
        built, name = None, "optimizer"
        try:
            built = self.optimizer([nn.Parameter(torch.zeros(1, 1))])
            name = "lr_scheduler"
            if self.lr_scheduler is not None:
                self.lr_scheduler(built)
        except ValueError as error:
            msg = (
                f"got --model.optimisation.{name} that torch refuses ({error}), expected settings "
                "in its ranges"
            )
            raise ValueError(msg) from error

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        return dict.fromkeys(("warmup", "decay"), "lr_scheduler") if self.lr_scheduler else {}

    @property
    def lasting(self) -> dict[str, str]:
        """Return the settings that need the length of the run, each with a value that does not."""
        if self.lr_scheduler is not None:
            return {}
        share = {"warmup": "0"} if 0 < self.warmup <= 1 else {}
        return share | ({"decay": "none"} if self.decay in ("linear", "cosine") else {})


@dataclass(frozen=True, kw_only=True)
class OptimisationChanges:
    """Changes to the `Optimisation` of a classifier; null keeps the classifier's own setting.

    Attributes:
        optimizer: optimiser of all trainable parameters.
        lr_scheduler: scheduler that is stepped once an epoch, instead of warmup and decay.
        warmup: share of all steps, or their number.
        decay: shape of the decrease to zero.
    """

    optimizer: OptimizerCallable | None = None
    lr_scheduler: LRSchedulerCallable | None = None
    warmup: float | None = None
    decay: Decay | None = None

    def __post_init__(self) -> None:
        """Check the settings; see `Optimisation`."""
        self.applied(Optimisation())

    def applied(self, settings: Optimisation) -> Optimisation:
        """Return the settings of a classifier with these changes."""
        changes = {name: value for name, value in vars(self).items() if value is not None}
        return replace(settings, **changes)


def undo_division(group: dict[str, Any], divisor: float) -> None:
    """Change a group of an optimiser so that dividing its objective does not change its steps.

    The objective was divided by `divisor` before its gradient was taken. To be called before the
    first step.
    """
    if divisor == 1:
        return
    # Adam's step does not depend on the scale of the gradient, except for eps: a gradient of 1e-7
    # with eps = 1e-8 moves a weight by 0.91 of the learning rate.
    if isinstance(group.get("eps"), float):
        group["eps"] /= divisor
    elif "dampening" in group:
        group["lr"] *= divisor  # SGD, whose step has the size of the gradient
    # Decay that is added to the gradient must be divided like it.
    if not group.get("decoupled_weight_decay", False):
        group["weight_decay"] = group.get("weight_decay", 0.0) / divisor
