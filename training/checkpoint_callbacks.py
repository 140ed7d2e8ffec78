"""Keeps the checkpoints of a fit: the best weights, and the state to resume from."""

import logging
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.trainer.states import TrainerFn
from typing_extensions import override

from lit_modules import TextModule, read_checkpoint
from lit_modules.checkpoints.sealed import SealingWriter
from run_files import atomic
from run_files.distributed import dry
from run_files.run_directory import RunDirectory
from run_files.weights import about_to_be_replaced
from training.interrupt import Stopped, interruption

log = logging.getLogger(__name__)

AUTO = "auto"
"""The default of `monitor`: the metric of the task."""


@dataclass(frozen=True)
class CheckpointSettings:
    """Settings of checkpoints.

    Args:
        monitor: logged validation metric by which `best.ckpt` is chosen, for example
            `val/loss` or `val/radius_correct`; null: those of the last epoch. `auto` is the figure
            of the task: `val/accuracy`, for a regression `val/spearman`, for tagging `val/f1`, for
            a language model over characters `val/loss`.
        mode: direction of `monitor`: its largest (`max`) or its smallest (`min`) value is best.
            With `auto`, that of the figure.
        allow_world_change: let a run go on with another number of processes. Its batches stay the
            same if `--data.batch_size` keeps the product of the two; its random numbers do not.
    """

    monitor: str | None = AUTO
    mode: Literal["min", "max"] = "max"
    allow_world_change: bool = False


def monitored(monitor: str, module: pl.LightningModule) -> str:
    """Returns the name of a monitored figure; `auto` stands for that of the method and its task."""
    if monitor != AUTO:
        return monitor
    return f"val/{module.headline if isinstance(module, TextModule) else 'accuracy'}"


def falls(module: pl.LightningModule) -> bool:
    """Returns True if the figure of a method is best where it is least."""
    return isinstance(module, TextModule) and module.lower_is_better


class Kept(ModelCheckpoint):
    """A checkpoint of a run, of whose earlier weights figures may lie beside it.

    Args:
        run: the run.
        name: name of the file, without its ending.
        monitor: metric that decides, see Lightning.
        mode: direction of the metric, see Lightning.
    """

    def __init__(
        self,
        run: RunDirectory,
        name: str,
        *,
        monitor: str | None = None,
        mode: Literal["min", "max"] = "min",
    ) -> None:
        super().__init__(
            dirpath=run.checkpoints.absolute(),
            filename=name,
            monitor=monitor,
            mode=mode,
            auto_insert_metric_name=False,
            # Numbered versions (best-v1) would leave two files of which only one is the best.
            enable_version_counter=False,
        )
        self.run = run

    def _save_checkpoint(self, trainer: pl.Trainer, filepath: str) -> None:
        if trainer.is_global_zero:
            about_to_be_replaced(self.run, Path(filepath))
        super()._save_checkpoint(trainer, filepath)


class BestCheckpoint(Kept):
    """Keeps the weights with the best value of a monitored metric as `best.ckpt`.

    Without a metric the newest weights are the best.
    """

    def __init__(
        self, run: RunDirectory, *, monitor: str | None, mode: Literal["min", "max"]
    ) -> None:
        super().__init__(run, "best", monitor=monitor, mode=mode)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Take the task's own figure, where nobody has chosen one.

        The module has been joined to its corpus before.
        """
        if self.monitor == AUTO and falls(pl_module):
            self.mode, self.kth_value = "min", torch.tensor(math.inf)
        if self.monitor is not None:
            self.monitor = monitored(self.monitor, pl_module)
        super().setup(trainer, pl_module, stage)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Say so where the best weights have been chosen by another metric up to now.

        Runs of before `auto` was a word of its own have `val/accuracy` for it in their settings.
        """
        keys = [key for key in checkpoint["callbacks"] if key.startswith(type(self).__name__)]
        if trainer.state.fn == TrainerFn.FITTING and keys and self.state_key not in keys:
            log.warning(
                "best.ckpt was chosen otherwise up to now (%s), and is chosen anew by %s from here "
                "on; --checkpoint.monitor auto is the figure of the task",
                keys[0],
                self.monitor,
            )

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look for the metric after the first validation, before hours of training.

        Raises:
            ValueError: the module does not log it.
        """
        metrics = sorted(name for name in trainer.callback_metrics if name.startswith("val/"))
        missing = self.monitor is not None and self.monitor not in metrics
        if trainer.state.fn == TrainerFn.FITTING and missing:
            msg = (
                f"got --checkpoint.monitor {self.monitor}, which {type(pl_module).__name__} does "
                f"not log, expected auto or one of {', '.join(metrics)}"
            )
            raise ValueError(msg)
        super().on_validation_end(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the weights if they are the best; without validation none are."""
        if self.monitor is None or self.monitor in trainer.callback_metrics:
            super().on_train_epoch_end(trainer, pl_module)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score, wherever the run directory lies now (it may have been moved)."""
        best = os.path.join(str(self.dirpath), "best.ckpt")  # noqa: PTH118 (Lightning keeps str)
        # Begun from another run's checkpoint, this one has no best yet, whatever that one's score.
        here = Path(best).is_file()
        scores = list(state_dict["best_k_models"].values()) if here else []
        super().load_state_dict(
            {
                **state_dict,
                "dirpath": self.dirpath,
                "best_model_path": best if scores else "",
                "kth_best_model_path": best if scores else "",
                "best_model_score": state_dict["best_model_score"] if scores else None,
                "best_k_models": dict.fromkeys([best], scores[0]) if scores else {},
            }
        )


class LastCheckpoint(Kept):
    """Keeps `last.ckpt` to go on from: after each epoch, every few minutes, and on a signal.

    The one before it is kept as `previous.ckpt`, in case a disk or a hand damages the last.

    Separate from `BestCheckpoint` because Lightning's `save_last` is written only when the best
    improves, and its `save_on_exception` would put the interrupted weights in the place of the best
    ones.

    Args:
        run: whose `last.ckpt` it is.
        every_n_minutes: write it in the middle of an epoch, too, when so much time has passed since
            it was last written.

    Attributes:
        seconds: time spent in training so far, over all sittings.
    """

    def __init__(self, run: RunDirectory, *, every_n_minutes: float) -> None:
        super().__init__(run, "last")
        self.every_n_minutes = every_n_minutes
        self._seconds_before = 0.0
        self._started: float | None = None
        self._saved_at = time.monotonic()

    @property
    def path(self) -> str:
        """Path of the checkpoint."""
        return os.path.join(str(self.dirpath), "last.ckpt")  # noqa: PTH118 (Lightning keeps str)

    @property
    def written(self) -> bool:
        """True if the checkpoint exists."""
        return Path(self.path).is_file()

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        running = 0.0 if self._started is None else time.monotonic() - self._started
        return self._seconds_before + running

    def state_dict(self) -> dict[str, Any]:
        """Lightning's state of the callback, and the time spent."""
        return {**super().state_dict(), "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the time spent; the paths are those of this run."""
        self._seconds_before = float(state_dict["seconds"])
        self.best_model_path = self.path

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock; from here on a signal waits for the end of the batch."""
        super().on_train_start(trainer, pl_module)
        self._started = self._saved_at = time.monotonic()
        interruption.deferred = True

    @override
    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Save in the middle of an epoch when it is time to, or when a signal has arrived."""
        # The last batch is followed by validation and the end of the epoch, which saves anyway. And
        # gradients that wait for the next batches of their step are in no checkpoint.
        waiting = (batch_idx + 1) % trainer.accumulate_grad_batches > 0
        if waiting or trainer.is_last_batch or dry(trainer):
            return
        late = time.monotonic() - self._saved_at > 60 * self.every_n_minutes
        stop, save = self._anyone(trainer, interruption.requested is not None, late)
        if stop or save:
            _log_step(trainer)
            self._save(trainer)
        if stop:
            self._stop()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save, and stop if a signal has arrived."""
        if dry(trainer):
            return
        self._save(trainer)
        if any(self._anyone(trainer, interruption.requested is not None)):
            self._stop()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The end of the epoch saves, with the outcome of the validation."""

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock."""
        self._pause()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Stop the clock.

        Nothing is saved: the batch in which the error was is half-done, and a validation that is
        broken off is not begun anew. What was saved before is a state to go on from.
        """
        self._pause()

    def _pause(self) -> None:
        self._seconds_before, self._started = self.seconds, None
        interruption.deferred = False

    def _save(self, trainer: pl.Trainer) -> None:
        self.best_model_path = self.path
        if trainer.is_global_zero:
            atomic.keep(Path(self.path), Path(self.path).with_name("previous.ckpt"))
        self._save_checkpoint(trainer, self.path)
        self._saved_at = time.monotonic()

    def _stop(self) -> None:
        interruption.saved = self.path
        raise Stopped(interruption.requested or signal.SIGTERM)

    @staticmethod
    def _anyone(trainer: pl.Trainer, *decisions: bool) -> list[bool]:
        """True if it is true on any process: all must save and stop after the same batch."""
        if trainer.world_size == 1:
            return list(decisions)
        mine = torch.tensor(decisions, dtype=torch.int32, device=trainer.strategy.root_device)
        everyone: Any = trainer.strategy.reduce(mine, reduce_op="max")
        return [bool(decision) for decision in everyone.tolist()]


def _log_step(trainer: pl.Trainer) -> None:
    """Log the metrics of a step now, and not again when Lightning would.

    Lightning logs a step after its callbacks, and a run that is resumed from a checkpoint of this
    step never logs it.
    """
    connector = trainer._logger_connector
    connector.update_train_step_metrics()

    def skip() -> None:
        # Uncovers Lightning's own method for the next step.
        del connector.update_train_step_metrics

    connector.update_train_step_metrics = skip  # type: ignore[method-assign] # meant


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints whole or not at all, with a checksum, and verifies it on loading.

    Lightning writes to the system's temporary directory and then moves the file; between file
    systems that is a copy, and a copy can end half-way.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Write `checkpoint` to `path` in one step."""
        with atomic.replacing(Path(path)) as stream:
            writer = SealingWriter(stream)
            try:
                torch.save(checkpoint, writer)  # type: ignore[arg-type] # only write() is called
            except RuntimeError as error:  # of torch's archive, over what the disk said
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from error
                raise
            writer.seal()

    @override
    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Any | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """The content of a checkpoint, which is on the CPU whatever is asked for; see `verify`."""
        return read_checkpoint(path)
