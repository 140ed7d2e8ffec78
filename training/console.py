"""Shows a training on the terminal: the parts of the model, and one line of progress."""

import math
import sys
import time
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar
from torch import nn
from typing_extensions import override


class Parts(pl.Callback):
    """Prints the number of parameters of a model and of its parts when a fit begins."""

    @override
    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            print(describe_parts(pl_module), flush=True)


class OneLine(TQDMProgressBar):
    """Shows a line for each epoch with its metrics, on a terminal."""

    def __init__(self) -> None:
        super().__init__(leave=True)

    @override
    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        metrics: dict[str, Any] = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)  # number of the event file
        return metrics


class PlainLines(pl.Callback):
    """Prints a line at the end of each epoch, and every minute within one, for files and pipes."""

    def __init__(self, interval: float = 60.0) -> None:
        self.interval = interval
        self._last = 0.0

    @override
    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._last = time.monotonic()

    @override
    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if time.monotonic() - self._last >= self.interval:
            self._last = time.monotonic()
            batches = trainer.num_training_batches
            of = f" of {batches:,}" if math.isfinite(batches) else ""
            self._say(trainer, f", batch {batch_idx + 1:,}{of}")

    @override
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._say(trainer, "")

    def _say(self, trainer: pl.Trainer, position: str) -> None:
        if not trainer.is_global_zero:
            return
        metrics = trainer.progress_bar_metrics.items()
        figures = ", ".join(f"{name} {value:.4g}" for name, value in metrics)
        print(f"epoch {trainer.current_epoch + 1}{position}: {figures}", flush=True)


def progress() -> pl.Callback:
    """Return the progress callback for a terminal, or for a file."""
    return OneLine() if sys.stdout.isatty() else PlainLines()


def describe_parts(model: nn.Module) -> str:
    """Return a line with the parts of a model and the number of parameters of each."""
    parts = {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in model.named_children()
    }
    # Parts may share weights: `parameters()` of the model counts each tensor once.
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    fixed = "" if trained == total else f", {total - trained:,} of them fixed"
    counts = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
    return f"{type(model).__name__}: {total:,} parameters{fixed} ({counts})"
