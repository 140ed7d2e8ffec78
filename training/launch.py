"""Runs work in all processes of a trainer, outside of Lightning's loops."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytorch_lightning as pl
import torch

from datamodules import TextDataModule
from datamodules.labelled import Split
from lit_modules import TaskModule, read_checkpoint
from training.join import join
from training.session import check_same_checkpoint, session

T = TypeVar("T")

_STAGES: dict[Split, tuple[str, tuple[Split, ...]]] = {
    "train": ("fit", ("train", "validation")),
    "validation": ("validate", ("validation",)),
    "test": ("test", ("test",)),
}
"""The stage in which a corpus reads a split, and all splits of that stage."""


def launch(
    trainer: pl.Trainer,
    model: TaskModule,
    corpus: TextDataModule,
    checkpoint: str | Path | None,
    work: Callable[[], T],
    *,
    split: Split,
    needs_labels: bool = True,
) -> T:
    """Run work with a model that has its weights, on its device, next to a corpus that is read.

    It is what Lightning does before a test loop: start the processes, meet, read, load.

    Args:
        trainer: says where, in how many processes, and at what precision.
        model: the model.
        corpus: the corpus.
        checkpoint: of the model; None for its weights as they are.
        work: in each process; the outcome is that of the first one.
        split: that the work needs.
        needs_labels: False if the split may be without labels.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or of another model.
        LostRankError: another process is gone.
    """

    def prepared() -> T:
        strategy = trainer.strategy
        strategy.setup_environment()
        corpus.trainer = trainer
        stage, splits = _STAGES[split]
        if trainer.local_rank == 0:
            corpus.fetch(splits)
        strategy.barrier()
        corpus.needs_labels = needs_labels
        try:
            corpus.setup(stage)
        finally:
            corpus.needs_labels = True
        join(model, corpus)
        model.configure_model()
        if path is not None:
            check_same_checkpoint(trainer, path)
            content = read_checkpoint(path)
            model.on_load_checkpoint(content)
            model.load_state_dict(content["state_dict"])
        strategy.precision_plugin.convert_module(model).to(strategy.root_device)
        with _evaluating(model), strategy.precision_plugin.forward_context():
            return work()

    with session(trainer, model, checkpoint) as path:
        launcher = trainer.strategy.launcher
        outcome: T = prepared() if launcher is None else launcher.launch(prepared, trainer=trainer)
    return outcome


@contextmanager
def _evaluating(model: TaskModule) -> Iterator[None]:
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in training.items():
            module.training = mode
