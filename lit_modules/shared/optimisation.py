"""Settings of the optimiser and of its learning rate, and changes of them."""

from dataclasses import dataclass, replace

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import nn

from lit_modules.shared.schedule import Decay, learning_rate_factor


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """The settings of the optimiser and of its learning rate.

    Attributes:
        optimizer: optimiser of all trainable parameters.
        lr_scheduler: scheduler that is stepped once an epoch, in place of warmup and decay.
        warmup: share of all steps over which the learning rate rises from zero, or, above 1, their
            number.
        decay: shape of the decrease to zero after the warm-up.
    """

    optimizer: OptimizerCallable = torch.optim.AdamW
    lr_scheduler: LRSchedulerCallable | None = None
    warmup: float = 0.0
    decay: Decay = "none"

    def __post_init__(self) -> None:
        """Checks the settings, which torch would only do once the corpus has been read.

        Raises:
            ValueError: a setting that is out of its range, or that torch refuses.
        """
        learning_rate_factor(0, warmup=self.warmup, decay=self.decay)
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
        """Returns the settings without effect, each with the setting that disables it."""
        return dict.fromkeys(("warmup", "decay"), "lr_scheduler") if self.lr_scheduler else {}


@dataclass(frozen=True, kw_only=True)
class OptimisationChanges:
    """Changes to the `Optimisation` of a classifier; null keeps the classifier's own setting.

    Attributes:
        optimizer: optimiser of all trainable parameters.
        lr_scheduler: scheduler that is stepped once an epoch, in place of warmup and decay.
        warmup: share of all steps, or their number.
        decay: shape of the decrease to zero.
    """

    optimizer: OptimizerCallable | None = None
    lr_scheduler: LRSchedulerCallable | None = None
    warmup: float | None = None
    decay: Decay | None = None

    def __post_init__(self) -> None:
        """Checks the settings; see `Optimisation`."""
        self.applied(Optimisation())

    def applied(self, settings: Optimisation) -> Optimisation:
        """Returns the settings of a classifier with these changes."""
        changes = {name: value for name, value in vars(self).items() if value is not None}
        return replace(settings, **changes)
