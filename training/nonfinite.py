"""Handles a NaN or infinite loss: stop before the weights are saved, or skip the step."""

import logging
from collections import deque
from typing import Any, Literal, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor
from typing_extensions import override

log = logging.getLogger(__name__)

OnNonFinite = Literal["stop", "skip"]
_SHOWN = 64
_PATIENCE = 10
"""Steps left out in a row after which the weights, not the batches, are to blame."""


class NonFiniteLossError(ValueError):
    """The loss or its gradient is infinite or not a number."""


class _Check(NamedTuple):
    """A loss that waits for its check.

    Attributes:
        finite: boolean scalar on the CPU, valid after `copied`.
        copied: event of the copy from the GPU; None on the CPU.
        where: epoch and step, for the message.
        sample_ids: sample ids of the batch.
    """

    finite: Tensor
    copied: torch.cuda.Event | None
    where: str
    sample_ids: Tensor

    def passed(self) -> bool:
        """Return True if the loss is finite; waits for the copy."""
        if self.copied is not None:
            self.copied.synchronize()
        return bool(self.finite)


def _check_eps(group: dict[str, Any]) -> None:
    """Refuse a group of an optimiser whose eps is 0 in the precision of its weights."""
    eps, weights = group.get("eps"), group["params"]
    # Fused optimisers compute in 32 bits; Adafactor has a pair of eps.
    if not isinstance(eps, float) or eps == 0 or group.get("fused") or not weights:
        return
    if torch.tensor(eps, dtype=weights[0].dtype) == 0:
        msg = (
            f"got weights of {weights[0].dtype} (--trainer.precision) and an optimizer with eps "
            f"{eps:g}, which is 0 in this precision, expected --trainer.precision 16-mixed, or "
            "--model.optimisation.optimizer.eps 1e-4"
        )
        raise ValueError(msg)


class FiniteLoss(pl.Callback):
    """Checks the loss of every training step.

    On a GPU it checks the loss of the previous step. A checkpoint is written only after the losses
    of all its steps were checked.

    Args:
        action: `stop` the run, naming the samples; or `skip` the optimiser's step whenever a
            gradient is not finite (with several processes, in all of them: gradients are reduced
            before). Skipping reads every gradient of every step, and waits for the GPU.
    """

    def __init__(self, action: OnNonFinite) -> None:
        self.action = action
        self.skipped = 0
        self._in_a_row = 0
        self._pending: deque[_Check] = deque()
        self._before: list[int] = []
        self._batches: list[Tensor] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget the state of an earlier fit.

        Raises:
            ValueError: the first step would divide by 0 where a gradient is 0.
        """
        for group in (group for built in trainer.optimizers for group in built.param_groups):
            _check_eps(group)
        self._pending.clear()
        self._batches.clear()
        self._before, self._in_a_row = [], 0

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Keep the ids of the samples whose gradients are accumulated."""
        if self.action == "skip":
            self._batches.append(batch.sample_ids)

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Remove all gradients if one of them is not finite.

        Raises:
            NonFiniteLossError: too many steps in a row had such gradients.
        """
        if self.action != "skip":
            return
        batches, self._batches = self._batches, []
        # In mixed half precision the gradient scaler skips such steps, and lowers its scale.
        if getattr(trainer.precision_plugin, "scaler", None) is not None:
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, norm_type=float("inf"))
        if bool(torch.isfinite(norm)):
            self._in_a_row = 0
            return
        # Without gradients an optimiser does nothing: no decay, no momentum.
        for parameter in parameters:
            parameter.grad = None
        self.skipped += 1
        self._in_a_row += 1
        samples = _listing([i for ids in batches for i in ids.tolist()])
        where = _where(trainer, trainer.global_step)
        if self._in_a_row == _PATIENCE:
            msg = (
                f"got gradients that are not finite in {_PATIENCE} steps in a row (last {where}, "
                f"on samples {samples}), expected finite ones: the weights are not usable any "
                f"more. {_advice(trainer)}"
            )
            raise NonFiniteLossError(msg)
        log.warning("%s left out: gradient not finite, on samples %s", where, samples)

    @override
    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Store the loss of this step, and check the loss of the previous one."""
        if self.action != "stop" or not isinstance(outputs, dict):
            return
        finite, copied = torch.isfinite(outputs["loss"].detach()).all(), None
        # Reading the present loss would make the CPU wait for the GPU on every step. So the result
        # is copied asynchronously and read one step later.
        if finite.is_cuda:
            on_gpu, finite = finite, torch.empty((), dtype=torch.bool, pin_memory=True)
            finite.copy_(on_gpu, non_blocking=True)
            copied = torch.cuda.current_stream().record_event()
        # The optimiser has already stepped: `global_step` is that of the next step.
        where = _where(trainer, max(trainer.global_step - 1, 0))
        self._pending.append(_Check(finite, copied, where, batch.sample_ids))
        # On a GPU the check of this step waits for the next one.
        self._look(trainer, keep=int(copied is not None))

    @override
    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Check the last loss, so that no broken weights are saved."""
        self._look(trainer, keep=0)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check the last loss."""
        self._look(trainer, keep=0)

    def _look(self, trainer: pl.Trainer, *, keep: int) -> None:
        while len(self._pending) > keep:
            check = self._pending.popleft()
            samples = check.sample_ids.tolist()
            if not check.passed():
                self._pending.clear()
                before = f" (step before: {_listing(self._before)})" if self._before else ""
                msg = (
                    f"got a loss that is not finite {check.where}, on samples {_listing(samples)}"
                    f"{before}, expected a number. {_advice(trainer)}"
                )
                raise NonFiniteLossError(msg)
            self._before = samples


def _where(trainer: pl.Trainer, step: int) -> str:
    return f"at epoch {trainer.current_epoch}, step {step}"


def _listing(samples: list[int]) -> str:
    more = f" and {len(samples) - _SHOWN} more" if len(samples) > _SHOWN else ""
    return f"{', '.join(map(str, samples[:_SHOWN]))}{more}"


def _advice(trainer: pl.Trainer) -> str:
    from training.checkpoint_callbacks import LastCheckpoint  # which has to know our exception

    last = next((c for c in trainer.checkpoint_callbacks if isinstance(c, LastCheckpoint)), None)
    checkpoint = "No checkpoint was written yet"
    if last is not None and last.written:
        checkpoint = f"The last good checkpoint is {last.path}"
    return (
        f"{checkpoint}; the same command would come here again: lower the learning rate, clip "
        "gradients (--trainer.gradient_clip_val 1), look at these samples, or leave such steps out "
        "with --on_nonfinite_loss skip"
    )
