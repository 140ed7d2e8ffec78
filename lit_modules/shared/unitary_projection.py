"""Keeps chosen weights unitary: projects them after every step of the optimiser."""

from collections.abc import Sequence
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import StochasticWeightAveraging, WeightAveraging
from pytorch_lightning.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from pytorch_lightning.trainer.states import TrainerFn
from torch import nn
from typing_extensions import override

from layers.unitary import (
    METHODS,
    UnitaryMethod,
    project_,
    unitary_residual,
)
from layers.weight_names import check_projectable, unitary_weights
from text import check_choice, check_range

Unitary = Literal["none", "qr", "polar"]
UnitarySchedule = Literal["none", "linear"]
_UNITARY = 1e-3
"""Largest entry of |WᵀW - I| of weights that a fit begins with as they are."""


class UnitaryProjection(pl.Callback):
    """Replaces weights by their unitary factor after every step of the optimiser.

    Chang and Wang, "Unitary Multi-Margin BERT for Robust Natural Language Processing", section 4.3.
    The weights change in place after the step, so that the optimiser, the checkpoints (which
    Lightning writes after all other callbacks) and the next forward pass see unitary ones. Moments
    of the optimiser are left as they are.

    Logged where the trainer logs: `unitary/drift`, how far the step has led away from the unitary
    matrices (‖W - Q‖_F / √d, mean over matrices), and `unitary/residual`, the largest entry of
    |QᵀQ - I| after it.
    """

    def __init__(
        self,
        patterns: Sequence[str] | None = None,
        method: UnitaryMethod = "qr",
        *,
        every_n_steps: int = 1,
        schedule: UnitarySchedule = "none",
        gradual_steps: int = 0,
        log: bool = True,
    ) -> None:
        """Keep the settings.

        Args:
            patterns: regular expressions of names of weights; see `layers.unitary_weights`.
            method: `qr` is the paper's factor, `polar` the nearest unitary matrix.
            every_n_steps: project after so many steps only; also before each validation and at the
                end of each epoch, so that what is measured and kept as best is unitary.
            schedule: `linear` closes the distance to the unitary matrices in equal parts over
                `gradual_steps` steps, from where the weights are. Ours, not the paper's.
            gradual_steps: length of that; not used by `none`.
            log: whether to log.

        Raises:
            ValueError: a setting out of its range.
        """
        if method not in METHODS or schedule not in ("none", "linear"):
            msg = (
                f"got method={method!r} and schedule={schedule!r}, expected a method of "
                f"{', '.join(METHODS)} and schedule none or linear"
            )
            raise ValueError(msg)
        if every_n_steps < 1:
            msg = f"got every_n_steps={every_n_steps}, expected 1 or more"
            raise ValueError(msg)
        if schedule == "linear" and (gradual_steps < 1 or every_n_steps > 1):
            msg = (
                f"got schedule=linear with gradual_steps={gradual_steps} and "
                f"every_n_steps={every_n_steps}, expected 1 or more, and 1"
            )
            raise ValueError(msg)
        self.patterns = None if patterns is None else list(patterns)
        self.method, self.every_n_steps = method, every_n_steps
        self.schedule, self.gradual_steps, self.log = schedule, gradual_steps, log
        self.weights: dict[str, nn.Parameter] = {}
        self._begun = False
        self._due = False
        self._step = 0

    @property
    def state_key(self) -> str:
        """One entry in a checkpoint, whatever the settings."""
        return "UnitaryProjection"

    @override
    def state_dict(self) -> dict[str, Any]:
        """That the fit has begun, and whether a projection is due."""
        return {"begun": self._begun, "due": self._due}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over where the fit was."""
        self._begun, self._due = bool(state_dict["begun"]), bool(state_dict["due"])

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Find the weights, and project them if they are not unitary.

        Raises:
            ValueError: weights that cannot be projected: see `unitary_weights`, or in reduced
                precision, or in parts on several devices; or a callback that averages weights.
        """
        sharded = (FSDPStrategy, DeepSpeedStrategy, ModelParallelStrategy)
        if isinstance(trainer.strategy, sharded):
            msg = (
                f"got {type(trainer.strategy).__name__}, which keeps parts of a matrix on several "
                "devices, expected whole ones: use --trainer.strategy ddp"
            )
            raise ValueError(msg)
        callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined] # set by a connector
        for callback in callbacks:
            if isinstance(callback, (StochasticWeightAveraging, WeightAveraging)):
                msg = (
                    f"got {type(callback).__name__} beside {type(self).__name__}, expected one of "
                    "them: an average of unitary matrices is not unitary"
                )
                raise ValueError(msg)
        self.weights = unitary_weights(pl_module, self.patterns)
        check_projectable(list(self.weights.values()))
        if self._begun or self.schedule == "linear":
            return
        # Measured, so that weights which are unitary up to rounding stay what they are.
        if not float(unitary_residual(list(self.weights.values())).max()) <= _UNITARY:
            project_(list(self.weights.values()), self.method)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count from here, on the device of the fit."""
        self.weights = unitary_weights(pl_module, self.patterns)
        self._begun, self._step = True, trainer.global_step

    @override
    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Project if the optimiser has made a step with this batch."""
        step = trainer.global_step
        if step == self._step:  # gradients are being accumulated
            return
        self._step, self._due = step, True
        if step % self.every_n_steps:
            return
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined] # set by a connector
        if self.log and every > 0 and step % every == 0:
            before = [weight.detach().clone() for weight in self.weights.values()]
            self._project()
            self._report(pl_module, before)
        else:
            self._project()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure unitary weights."""
        if trainer.state.fn == TrainerFn.FITTING:
            self._project()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep unitary weights."""
        self._project()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let another fit look at its weights anew."""
        self._begun = False

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """As at the end."""
        self._begun = False

    def _project(self) -> None:
        if not self._due:
            return
        share, left = 1.0, self.gradual_steps - self._step + 1
        if self.schedule == "linear" and left > 1:
            share = 1 / left  # of what is left: equal parts of the whole
        project_(list(self.weights.values()), self.method, share=share)
        self._due = False

    def _report(self, pl_module: pl.LightningModule, before: Sequence[torch.Tensor]) -> None:
        after = [weight.detach() for weight in self.weights.values()]
        moved = [
            torch.linalg.matrix_norm(w - q) / len(q) ** 0.5
            for w, q in zip(before, after, strict=True)
        ]
        pl_module.log("unitary/drift", torch.stack(moved).mean())
        pl_module.log("unitary/residual", unitary_residual(after).max())


def unused_without(projection: UnitaryProjection | None) -> dict[str, str]:
    """Settings of a method that have no effect where it projects nothing; see `TextModule`."""
    names = ("unitary_weights", "unitary_every", "unitary_gradual_steps")
    return {} if projection is not None else dict.fromkeys(names, "unitary=none")


def projection_of(
    unitary: Unitary,
    patterns: Sequence[str] | None,
    *,
    every_n_steps: int = 1,
    gradual_steps: int = 0,
) -> UnitaryProjection | None:
    """The projection that the settings of a method ask for, if they ask for one.

    Args:
        unitary: method of the projection, or none.
        patterns: see `UnitaryProjection`.
        every_n_steps: see there.
        gradual_steps: over how many steps the distance is closed; 0 closes it at once.

    Raises:
        ValueError: a setting out of its range.
    """
    check_choice("unitary", unitary, ("none", *METHODS))
    check_range({"unitary_every": every_n_steps}, least=1)
    check_range({"unitary_gradual_steps": gradual_steps}, least=0)
    if unitary == "none":
        return None
    if gradual_steps and every_n_steps > 1:
        msg = (
            f"got unitary_every={every_n_steps} beside unitary_gradual_steps={gradual_steps}, "
            "expected 1: every step closes a part of the distance"
        )
        raise ValueError(msg)
    return UnitaryProjection(
        patterns,
        unitary,
        every_n_steps=every_n_steps,
        schedule="linear" if gradual_steps else "none",
        gradual_steps=gradual_steps,
    )
