"""Writes the folder of a pre-trained encoder at the end of its training."""

from pathlib import Path

import pytorch_lightning as pl

from lit_modules.shared.encoder_training import EncoderTraining
from run_files import atomic
from run_files.distributed import dry


class Export(pl.Callback):
    """Writes the folder `backbone/` into the run when the training of an encoder ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the folder: it is complete or absent."""
        if not isinstance(pl_module, EncoderTraining) or not trainer.is_global_zero or dry(trainer):
            return
        with atomic.replacing_folder(self.folder) as fresh:
            pl_module.export(fresh)
