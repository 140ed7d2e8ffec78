"""The base class of `TextModule`: a LightningModule where the process may train.

A process that only predicts (`text.process_role`) gets a plain torch module with the few
attributes of a LightningModule that predictions, certificates and attacks read.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from text import process_role

if TYPE_CHECKING or not process_role.predicts_only:
    from pytorch_lightning import LightningModule
    from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
else:
    OptimizerCallable = Callable[[Iterable], Optimizer]
    LRSchedulerCallable = Callable[[Optimizer], object]

    class LightningModule(nn.Module):
        """A module without a Trainer."""

        _trainer = None
        current_epoch = 0
        device_mesh = None

        def __init__(self) -> None:
            super().__init__()
            self.hparams: dict[str, Any] = {}

        def save_hyperparameters(self, *, ignore: Iterable[str] = ()) -> None:
            """Keep nothing: `TextModule.from_settings` keeps the settings of a checkpoint."""

        @property
        def device(self) -> torch.device:
            """The device of the weights; the CPU without any."""
            return next((p.device for p in self.parameters()), torch.device("cpu"))

        @property
        def dtype(self) -> torch.dtype:
            """The type of the weights; torch's default without any."""
            types = (p.dtype for p in self.parameters() if p.is_floating_point())
            return next(types, torch.get_default_dtype())


__all__ = ["LRSchedulerCallable", "LightningModule", "OptimizerCallable"]
