"""Chooses the number of epochs if no limit is set, and stops a fit early."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import Tensor

from training.checkpoint_callbacks import AUTO, prefers_lower, resolve_monitor

log = logging.getLogger(__name__)

PATIENCE = 5
LIGHTNING_EPOCHS = 1000
"""Lightning's default number of epochs, which older versions of this program used."""
_UNLIMITED = {"max_epochs": None, "max_steps": -1, "max_time": None}


@dataclass(frozen=True)
class EarlyStoppingSettings:
    """Settings of early stopping.

    Args:
        patience: stop after this number of validations in a row without a better value of
            `--checkpoint.monitor` (of the task's metric if that is null); 0: never. null: 5 if
            none of `--trainer.max_epochs`, `max_steps` and `max_time` is set, else 0.
    """

    patience: int | None = None

    def __post_init__(self) -> None:
        """Refuse a negative patience."""
        if self.patience is not None and self.patience < 0:
            msg = (
                f"got --early_stopping.patience {self.patience}, expected a number of validations "
                "of at least 1, or 0 for no early stopping"
            )
            raise ValueError(msg)


class EpochLimits(NamedTuple):
    """Settings that end a fit early.

    Attributes:
        max_epochs: number of epochs, as Lightning takes it: -1 for no limit, None where steps or
            time are limited.
        patience: patience of `EarlyStoppingSettings`; 0 for no early stopping.
    """

    max_epochs: int | None
    patience: int


def limits(
    trainer: Mapping[str, Any],
    patience: int | None,
    *,
    default_epochs: int,
    stored: Mapping[str, Any] | None = None,
) -> EpochLimits:
    """Decide how long a fit lasts, by the settings of its trainer and the user's patience.

    `default_epochs` are those of the method; a resumed run has `stored` settings.
    """
    max_epochs: int | None = trainer.get("max_epochs")
    # The user has limited the fit: early stopping is then off by default.
    if any(trainer.get(name) != nothing for name, nothing in _UNLIMITED.items()):
        return EpochLimits(max_epochs, patience or 0)
    if stored is None:
        return EpochLimits(default_epochs, PATIENCE if patience is None else patience)
    # A resumed run keeps its limits; older versions stored no number of epochs.
    epochs = stored.get("trainer", {}).get("max_epochs") or LIGHTNING_EPOCHS
    before = stored.get("early_stopping", {}).get("patience") or 0
    return EpochLimits(epochs, before if patience is None else patience)


class StopEarly(EarlyStopping):
    """Ends a fit after some validations in a row without a better value of a metric.

    Checkpoints store their number, so that a resumed run ends at the same epoch.

    Args:
        patience: number of validations, at least 1.
        monitor: the metric; see `CheckpointSettings`. Without validation a fit never ends early.
        mode: direction of the metric: larger (`max`) or smaller (`min`) is better.
        anew: the run had finished: if it ended early, its patience begins again.
        another: the checkpoint belongs to another run, whose values do not count.
    """

    def __init__(
        self,
        patience: int,
        *,
        monitor: str | None,
        mode: Literal["min", "max"],
        anew: bool = False,
        another: bool = False,
    ) -> None:
        # The rank correlation of equal predictions is NaN, which must not end the fit at once.
        super().__init__(
            monitor=monitor or AUTO,
            patience=patience,
            mode=mode if monitor else "max",
            strict=False,
            check_finite=False,
        )
        self.anew, self.another = anew, another
        # Lightning keeps a wish to stop until `min_epochs`, also if the metric gets better since.
        self._ended = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Resolve `auto` to the metric of the task."""
        if self.monitor == AUTO and prefers_lower(pl_module):
            self.mode, self.best_score = "min", torch.tensor(math.inf)
        self.monitor = resolve_monitor(self.monitor, pl_module)
        super().setup(trainer, pl_module, stage)

    def state_dict(self) -> dict[str, Any]:
        """Return Lightning's state of the callback, and True if the fit is to end."""
        return {**super().state_dict(), "ended": self._ended}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the count; the patience is that of the settings, which may have changed."""
        if self.another:
            return
        super().load_state_dict({**state_dict, "patience": self.patience})
        if self.anew and _ended(state_dict):
            self.wait_count = self.stopped_epoch = 0
        else:
            self._ended = _ended(state_dict) and self.patience <= state_dict["patience"]

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End at once if the run was killed after its last epoch, before it was recorded."""
        if self._ended or self.wait_count >= self.patience:
            trainer.should_stop = True

    def _evaluate_stopping_criteria(self, current: Tensor) -> tuple[bool, str | None]:
        stop, reason = super()._evaluate_stopping_criteria(current)
        if stop:
            self._ended = True
            log.info(
                "training ends: %s has not got better than %.4f in %d validations "
                "(--early_stopping.patience; 0 trains on)",
                self.monitor,
                float(self.best_score),
                self.wait_count,
            )
        return stop, reason


def stopped_early(checkpoint: Mapping[str, Any]) -> bool:
    """Return True if the fit that wrote a checkpoint stopped there early."""
    states: Mapping[str, Any] = checkpoint.get("callbacks", {})
    return any(_ended(state) for key, state in states.items() if key.startswith(StopEarly.__name__))


def _ended(state: Mapping[str, Any]) -> bool:
    # Lightning's own `stopped_epoch` is 0 after an end in the first epoch; older versions of this
    # program stored nothing else.
    return bool(state.get("ended", state.get("stopped_epoch", 0) > 0))
