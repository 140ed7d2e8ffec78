"""Keeps the checkpoints of a fit: the best weights, and the state to resume from."""

import logging
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
            `val/loss` or `val/radius_correct`; null: those of the last epoch. `auto` is the metric
            of the task: `val/accuracy`, for a regression `val/spearman`, for tagging `val/f1`, for
            a language model over characters `val/loss`, for `UnitaryDistillation` `val/cosine`.
        mode: direction of `monitor`: its largest (`max`) or its smallest (`min`) value is best.
            With `auto`, that of the metric.
        allow_world_change: let a run resume with another number of processes. Its batches stay the
            same if `--data.batch_size` keeps the product of the two; its random numbers do not.
    """

    monitor: str | None = AUTO
    mode: Literal["min", "max"] = "max"
    allow_world_change: bool = False


def resolve_monitor(monitor: str, module: pl.LightningModule) -> str:
    """Return the name of a monitored metric; `auto` means the metric of the task."""
    if monitor != AUTO:
        return monitor
    return f"val/{module.headline if isinstance(module, TextModule) else 'accuracy'}"


def prefers_lower(module: pl.LightningModule) -> bool:
    """Return True if a smaller value of the method's metric is better."""
    return isinstance(module, TextModule) and module.lower_is_better


class RunCheckpoint(ModelCheckpoint):
    """A checkpoint whose old figures move away when its weights are replaced.

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

    @property
    def path(self) -> str:
        """Path of the checkpoint."""
        return os.path.join(str(self.dirpath), f"{self.filename}.ckpt")  # noqa: PTH118 (Lightning keeps str)

    def _save_checkpoint(self, trainer: pl.Trainer, filepath: str) -> None:
        if trainer.is_global_zero:
            about_to_be_replaced(self.run, Path(filepath))
        super()._save_checkpoint(trainer, filepath)


class BestCheckpoint(RunCheckpoint):
    """Keeps the weights with the best value of a monitored metric as `best.ckpt`.

    Without a metric the newest weights are the best.

    Args:
        run: the run.
        monitor: the metric; see `CheckpointSettings`.
        mode: direction of the metric.
        another: the checkpoint belongs to another run, whose best score does not count.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        monitor: str | None,
        mode: Literal["min", "max"],
        another: bool = False,
    ) -> None:
        super().__init__(run, "best", monitor=monitor, mode=mode)
        self.another = another

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Resolve `auto` to the metric of the task."""
        # JoinCorpus runs before this callback, so the module knows its task here.
        if self.monitor == AUTO and prefers_lower(pl_module):
            self.mode, self.kth_value = "min", torch.tensor(math.inf)
        if self.monitor is not None:
            self.monitor = resolve_monitor(self.monitor, pl_module)
        super().setup(trainer, pl_module, stage)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Warn if another metric has chosen the best weights until now."""
        # Runs of versions before `auto` have `val/accuracy` in their settings.
        keys = [key for key in checkpoint["callbacks"] if key.startswith(type(self).__name__)]
        if trainer.state.fn == TrainerFn.FITTING and keys and self.state_key not in keys:
            log.warning(
                "best.ckpt was chosen otherwise up to now (%s), and is chosen anew by %s from here "
                "on; --checkpoint.monitor auto is the figure of the task",
                keys[0],
                self.monitor,
            )

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check after the first validation, before hours of training, that the metric exists.

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
        """Keep the weights if they are the best so far; needs a validation."""
        if self.monitor is None or self.monitor in trainer.callback_metrics:
            super().on_train_epoch_end(trainer, pl_module)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score; the run directory may have been moved since."""
        # A run that starts from another run's checkpoint has no best weights of its own yet; a
        # `best.ckpt` is then from a start that was killed before its first `last.ckpt`.
        best = self.path
        here = Path(best).is_file() and not self.another
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


class LastCheckpoint(RunCheckpoint):
    """Writes `last.ckpt` to resume from: after each epoch, every few minutes, and on a signal.

    The one before it stays as `previous.ckpt`, in case the last one gets damaged.

    Args:
        run: the run.
        every_n_minutes: also write it within an epoch when this time has passed since the last
            write.

    Attributes:
        seconds: time of training so far, over all interruptions.
    """

    # Lightning's `save_last` writes only when the best improves, and its `save_on_exception` would
    # overwrite the best weights with the interrupted ones. So this is a callback of its own.

    def __init__(self, run: RunDirectory, *, every_n_minutes: float) -> None:
        super().__init__(run, "last")
        self.every_n_minutes = every_n_minutes
        self._seconds_before = 0.0
        self._started: float | None = None
        self._saved_at = time.monotonic()

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
        """Return Lightning's state of the callback, and the time of training."""
        return {**super().state_dict(), "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the time of training; the paths are those of this run."""
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
        # A run that resumes from here would leave out a validation that follows this batch.
        if not _validates_next(trainer):
            self._save_if_due(trainer, logged=False)

    def _save_if_due(self, trainer: pl.Trainer, *, logged: bool) -> None:
        # After the last batch the end of the epoch saves anyway. And a checkpoint has no gradients
        # that are still being accumulated.
        waiting = (trainer.fit_loop.batch_idx + 1) % trainer.accumulate_grad_batches > 0
        if waiting or trainer.is_last_batch or dry(trainer):
            return
        late = time.monotonic() - self._saved_at > 60 * self.every_n_minutes
        stop, save = self._anyone(trainer, interruption.requested is not None, late)
        if stop or save:
            if not logged:
                _log_step(trainer)
            self._save(trainer)
        if stop:
            self._stop()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save, and stop if a signal has arrived."""
        if dry(trainer):
            return
        with _position_kept(trainer):
            self._save(trainer)
        if any(self._anyone(trainer, interruption.requested is not None)):
            self._stop()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save as after a batch, with the outcome of a validation inside an epoch."""
        # A fit that ends here saves at the end of its epoch.
        if trainer.state.fn == TrainerFn.FITTING and not (
            trainer.sanity_checking or trainer.should_stop
        ):
            self._save_if_due(trainer, logged=True)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock."""
        self._pause()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Stop the clock, without saving."""
        # The failed batch is half done, and a resumed run would not repeat a broken validation. The
        # checkpoint before it is the state to resume from.
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
        # Another process may have received the signal, and this one none.
        raise Stopped(interruption.requested or signal.SIGTERM)

    @staticmethod
    def _anyone(trainer: pl.Trainer, *decisions: bool) -> list[bool]:
        """Return for each decision whether any process has made it: all save after one batch."""
        if trainer.world_size == 1:
            return list(decisions)
        mine = torch.tensor(decisions, dtype=torch.int32, device=trainer.strategy.root_device)
        everyone: Any = trainer.strategy.reduce(mine, reduce_op="max")
        return [bool(decision) for decision in everyone.tolist()]


@contextmanager
def _position_kept(trainer: pl.Trainer) -> Iterator[None]:
    """Let a checkpoint of a fit that ends inside an epoch continue that epoch later.

    Lightning has counted the epoch as processed: a run with a larger `max_steps` would begin the
    next one with the rest of the batches, and not validate after them.
    """
    progress: Any = trainer.fit_loop.epoch_progress
    inside = not trainer.fit_loop.epoch_loop._num_ready_batches_reached()
    for counts in (progress.current, progress.total):
        counts.processed -= inside
    try:
        yield
    finally:
        for counts in (progress.current, progress.total):
            counts.processed += inside


def _validates_next(trainer: pl.Trainer) -> bool:
    """Return True if Lightning validates after this batch; False where a clock decides."""
    fetcher = trainer.fit_loop._data_fetcher
    if fetcher is None or getattr(trainer, "_val_check_time_interval", None) is not None:
        return False
    return bool(trainer.fit_loop.epoch_loop._should_check_val_fx(fetcher))


def _log_step(trainer: pl.Trainer) -> None:
    """Log the metrics of a step now instead of after the callbacks."""
    # A run that resumes from a checkpoint of this step would never log the step.
    connector = trainer._logger_connector
    connector.update_train_step_metrics()

    def skip() -> None:
        # Uncovers Lightning's own method for the next step.
        del connector.update_train_step_metrics

    connector.update_train_step_metrics = skip  # type: ignore[method-assign] # meant


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes complete checkpoints or none, with a checksum, and verifies it on loading."""

    # Lightning writes to the system's temporary directory and then moves the file. Between file
    # systems a move is a copy, which can end half-way.
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
        self, path: str | Path, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Return the content of a checkpoint, always on the CPU; see `verify`."""
        return read_checkpoint(path)
