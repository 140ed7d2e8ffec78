"""Keeps the signal handlers of `training.interrupt` in a trainer."""

import signal

import pytorch_lightning as pl

from training.interrupt import interruption


class KeepHandlers(pl.Callback):
    """Replaces Lightning's signal handlers by ours.

    Under SLURM, too: there the batch script asks the queue to start the job again
    (`configs/cluster/`).
    """

    # Lightning's handler ends a SIGTERM with exit status 0, and calls collective operations from
    # inside the handler, where the other processes do not take part.
    def on_sanity_check_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore our handlers, at the start of any loop."""
        if signal.getsignal(signal.SIGINT) == interruption.handle:
            interruption.register()

    on_train_start = on_validation_start = on_sanity_check_start
    on_test_start = on_predict_start = on_sanity_check_start
