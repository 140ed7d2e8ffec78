"""Keeps chosen weights unitary: projects them after every step of the optimiser."""

from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import StochasticWeightAveraging, WeightAveraging
from pytorch_lightning.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_warn
from torch import nn
from typing_extensions import override

from layers.unitary import METHODS, UnitaryMethod, project_, unitary_residual
from layers.weight_names import check_projectable, unitary_blocks, unitary_weights
from lit_modules.shared.unitary import Unitary

# Largest entry of |WᵀW - I| for which initial weights count as unitary.
_UNITARY = 1e-3


class UnitaryProjection(pl.Callback):
    """Replaces weights by their unitary factor after every step of the optimiser.

    Chang and Wang, "Unitary Multi-Margin BERT for Robust Natural Language Processing", section 4.3.
    The weights change in place after the step, so that the optimiser, the checkpoints (which
    Lightning writes after all other callbacks) and the next forward pass use unitary ones. Moments
    of the optimiser are not changed.

    Logs at the steps of the trainer's metrics: `unitary/drift`, the distance of the weights after
    the step from the unitary matrices (‖W - Q‖_F / √d, mean over matrices), and `unitary/residual`,
    the largest entry of |QᵀQ - I| after the projection.
    """

    def __init__(self, settings: Unitary = Unitary()) -> None:
        """Keep the settings.

        Raises:
            ValueError: method none.
        """
        if settings.method == "none":
            msg = f"got {settings}, expected a method of {', '.join(METHODS)}"
            raise ValueError(msg)
        self.settings, self.patterns = settings, settings.weights
        self.method: UnitaryMethod = settings.method
        self.weights: dict[str, nn.Parameter] = {}
        self._begun = False
        self._due = False
        self._step = 0

    @property
    def blocks(self) -> list[torch.Tensor]:
        """The matrices that are projected, see `unitary_blocks`."""
        return unitary_blocks(self.weights)

    @property
    def state_key(self) -> str:
        """The key in checkpoints, the same for all settings."""
        return "UnitaryProjection"

    @override
    def state_dict(self) -> dict[str, Any]:
        """Return the progress: the fit has begun, a projection is due."""
        return {"begun": self._begun, "due": self._due}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the progress of the fit."""
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
        check_projectable(self.blocks)
        # A resumed run has projected weights; a gradual one projects them step by step.
        if self._begun or self.settings.gradual_steps:
            return
        # Weights that are unitary up to rounding are not changed.
        if not float(unitary_residual(self.blocks).max()) <= _UNITARY:
            project_(self.blocks, self.method)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the step count, and find the weights on the device of the fit."""
        self.weights = unitary_weights(pl_module, self.patterns)
        self._begun, self._step = True, trainer.global_step
        gradual, steps = self.settings.gradual_steps, trainer.estimated_stepping_batches
        # Not refused: a longer training may continue this one.
        if gradual > steps:
            rank_zero_warn(
                f"got unitary.gradual_steps={gradual} for a training of {steps} steps, expected at "
                "most as many: its weights will not be unitary at the end"
            )

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
        if step % self.settings.every_n_steps:
            return
        interval: int = trainer.log_every_n_steps  # type: ignore[attr-defined] # set by a connector
        # The drift needs a copy of all weights: only at steps that are logged.
        if interval > 0 and step % interval == 0:
            before = [block.clone() for block in self.blocks]
            self._project()
            self._report(pl_module, before)
        else:
            self._project()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Project, so that unitary weights are validated."""
        if trainer.state.fn == TrainerFn.FITTING:
            self._project()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Project, so that unitary weights are stored."""
        self._project()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reset the state for the next fit."""
        self._begun = False

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """See `on_fit_end`."""
        self._begun = False

    def _project(self) -> None:
        if not self._due:
            return
        share, remaining = 1.0, self.settings.gradual_steps - self._step + 1
        if remaining > 1:
            share = 1 / remaining  # of the remaining distance: equal parts of the total
        project_(self.blocks, self.method, share=share)
        self._due = False

    def _report(self, pl_module: pl.LightningModule, before: Sequence[torch.Tensor]) -> None:
        after = self.blocks
        moved = [
            torch.linalg.matrix_norm(w - q) / q.shape[1] ** 0.5
            for w, q in zip(before, after, strict=True)
        ]
        pl_module.log("unitary/drift", torch.stack(moved).mean())
        pl_module.log("unitary/residual", unitary_residual(after).max())
