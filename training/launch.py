"""Runs work in all processes of a trainer, outside of Lightning's loops."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import pytorch_lightning as pl
import torch

from certify.certificate import evaluating
from datamodules import TextDataModule
from datamodules.labelled import Split
from lit_modules import TaskModule
from training.join import join
from training.session import check_same_checkpoint, session

T = TypeVar("T")

_STAGES: dict[Split | Literal["predict"], tuple[str, tuple[Split, ...]]] = {
    "train": ("fit", ("train", "validation")),
    "validation": ("validate", ("validation",)),
    "test": ("test", ("test",)),
    "predict": ("predict", ("test",)),
}
"""The stage in which a corpus reads a split, and all splits of that stage."""


def launch(
    trainer: pl.Trainer,
    model: TaskModule,
    corpus: TextDataModule,
    checkpoint: str | Path | None,
    work: Callable[[], T],
    *,
    split: Split | Literal["predict"],
    needs_labels: bool = True,
) -> T:
    """Run a function after setting up model and corpus as Lightning does before a test loop.

    The model gets the weights of the checkpoint, if there is one. `work` runs in each process; the
    outcome is that of the first one. `split` is the one that it needs: `predict` is the test split,
    of which some samples may be without label, as all may be without `needs_labels`.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or of another model.
        LostRankError: another process is gone.
    """

    def prepared() -> T:
        strategy = trainer.strategy
        strategy.setup_environment()
        # Data modules ask their trainer for rank and number of processes.
        corpus.trainer = trainer
        stage, splits = _STAGES[split]
        # One process per machine downloads; the others wait and read its files.
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
        # The weights exist only after configure_model, which needs the vocabulary from join.
        if content is not None:
            check_same_checkpoint(trainer, path)
            model.on_load_checkpoint(content)
            model.load_state_dict(content["state_dict"])
        strategy.precision_plugin.convert_module(model).to(strategy.root_device)
        precision = strategy.precision_plugin.forward_context()
        with torch.no_grad(), evaluating(model), precision:
            return work()

    with session(trainer, model, checkpoint) as (path, content):
        launcher = trainer.strategy.launcher
        outcome: T = prepared() if launcher is None else launcher.launch(prepared, trainer=trainer)
    return outcome
