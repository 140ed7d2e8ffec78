"""Wraps each command of a trainer: checks its checkpoint, and watches the other processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.plugins.environments import SLURMEnvironment  # type: ignore[attr-defined] # no __all__

from lit_modules import TextModule, check_fits, check_method, check_would_fit, read_checkpoint
from lit_modules.checkpoints.exported import checkpoint_digest
from run_files.distributed import gather_parts
from training.watch import watched


@contextmanager
def session(
    trainer: pl.Trainer, model: pl.LightningModule | None, ckpt_path: str | Path | None
) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    """Check the checkpoint of a command of the trainer, and watch the other processes.

    Yields:
        The path of the checkpoint for Lightning, and its content for a model of this project.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or of another model.
        LostRankError: another process of the run is gone.
    """
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if isinstance(environment, SLURMEnvironment):
        # Lightning would save from inside a signal handler, in the middle of a step, to a file that
        # is not `last.ckpt`. Ours saves after the batch; the batch script asks for a new start.
        environment.auto_requeue = False
    if trainer.world_size > 1 and not any(isinstance(c, SameStart) for c in _callbacks(trainer)):
        _callbacks(trainer).insert(0, SameStart())
    with watched(trainer), _restored(model, ckpt_path) as checkpoint:
        yield None if ckpt_path is None else str(ckpt_path), checkpoint


def _callbacks(trainer: pl.Trainer) -> list[pl.Callback]:
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined] # set by a connector
    return callbacks


@contextmanager
def _restored(
    model: pl.LightningModule | None, ckpt_path: str | Path | None
) -> Iterator[dict[str, Any] | None]:
    """Read a checkpoint before Lightning does, and refuse a wrong one."""
    if ckpt_path is None or not isinstance(model, TextModule):
        yield None
        return
    checkpoint = read_checkpoint(ckpt_path)
    check_method(checkpoint, model, ckpt_path)
    # The model needs its vocabulary and classes before Lightning creates the weights.
    model.restore_text(checkpoint)
    # After a fit the model has weights and a trainer, and cannot be copied for a trial.
    check = check_would_fit if next(model.parameters(), None) is None else check_fits
    check(checkpoint, model, ckpt_path)
    try:
        yield checkpoint
    except RuntimeError as error:
        # Lightning loads the weights inside the block; our check has the better message.
        if "loading state_dict" in str(error):
            check_fits(checkpoint, model, ckpt_path)
        raise


class SameStart(pl.Callback):
    """Stops a run whose processes have read different checkpoints.

    That happens when machines share no disk, and only some of them have the run.
    """

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compare the checkpoints."""
        del pl_module
        check_same_checkpoint(trainer, trainer.ckpt_path)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compare the checkpoints outside a fit."""
        if trainer.validating:
            self.on_fit_start(trainer, pl_module)

    on_test_start = on_fit_start
    on_predict_start = on_fit_start


def check_same_checkpoint(trainer: pl.Trainer, checkpoint: str | Path | None) -> None:
    """Raise ValueError where the processes of a trainer have read different checkpoints."""
    digests = gather_parts(trainer, checkpoint_digest(Path(checkpoint)) if checkpoint else "")
    rank = next((rank for rank, digest in enumerate(digests) if digest != digests[0]), None)
    if rank is not None:
        msg = (
            f"rank 0 begins with checkpoint {digests[0][:12] or '(none)'}, rank {rank} with "
            f"{digests[rank][:12] or '(none)'}, expected the same: let all machines see one "
            "--runs_dir, or copy the run to each (docs/runbook.md)"
        )
        raise ValueError(msg)
