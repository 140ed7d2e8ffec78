"""Finds the weights behind a figure, and the place of the figure in a run."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from attacks.digests import file_digest
from lit_modules import CheckpointError, read_checkpoint
from lit_modules.checkpoints.exported import WEIGHTS
from lit_modules.shared.text_module import CHECKPOINT_KEY
from run_files import results
from run_files.run_directory import RunDirectory, of_checkpoint

log = logging.getLogger(__name__)

SHORT = 12
"""Hex digits of a digest that stand in the names of folders and in the lines of records."""


@dataclass(frozen=True)
class Weights:
    """The weights that an evaluation measures.

    Attributes:
        checkpoint: SHA-256 of their file.
        file: name of the file.
        epoch: the epoch in which they were saved, counted from 1.
        step: optimiser steps that lie behind them.
        training_ended: True if the training that they come from has ended; None where no run says.
    """

    checkpoint: str
    file: str
    epoch: int
    step: int
    training_ended: bool | None

    @property
    def stamp(self) -> str:
        """The beginning of the digest."""
        return self.checkpoint[:SHORT]

    @property
    def label(self) -> str:
        """Name of the folder for the figures of these weights."""
        return f"step-{self.step}-{self.stamp}"

    def __str__(self) -> str:
        return f"{self.file}, step {self.step}, SHA-256 {self.checkpoint}"

    def about(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)


def checkpoint_text(run: RunDirectory) -> Mapping[str, Any]:
    """Returns the task, the classes and the text settings of a run's checkpoint.

    Args:
        run: whose checkpoint it is; nothing is returned where there is none that can be read.
    """
    if not run.chosen.is_file():
        return {}
    try:
        content = read_checkpoint(run.chosen, lazily=True)[CHECKPOINT_KEY]
    except CheckpointError:
        return {}
    return content if isinstance(content, Mapping) else {}


def weights_of(checkpoint: Path) -> Weights:
    """Read which weights a checkpoint holds.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    content = read_checkpoint(checkpoint, lazily=True)
    home = of_checkpoint(checkpoint)
    return Weights(
        checkpoint=file_digest(checkpoint / WEIGHTS if checkpoint.is_dir() else checkpoint),
        file=checkpoint.name,
        epoch=int(content.get("epoch", 0)) + 1,
        step=int(content.get("global_step", 0)),
        training_ended=None if home is None else home.finished("fit"),
    )


def tensors_digest(checkpoint: Path) -> str:
    """Returns the SHA-256 of the weights themselves, by their names.

    The file of a checkpoint also holds paths and seconds, so that the same training gives another
    file elsewhere; its weights are the same bit by bit.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(read_checkpoint(checkpoint)["state_dict"].items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def shelf(run: RunDirectory, weights: Weights) -> RunDirectory:
    """Find where in a run the figures of these weights are kept.

    Those of the chosen checkpoint lie in the run itself, those of any other one in a folder of
    their own, so that no two figures side by side are about different weights.
    """
    chosen = run.chosen
    if not chosen.is_file() or file_digest(chosen) == weights.checkpoint:
        return run
    return run.apart(weights.label)


def keep_apart(run: RunDirectory, weights: Weights) -> None:
    """Move away the figures of a run that belong to other weights."""
    about = results.about_stages(run.results())
    others = {a["checkpoint"]: a for a in about if a.get("checkpoint") not in (None, "none")}
    others.pop(weights.checkpoint, None)
    for found in others.values():
        run.set_aside(f"step-{found.get('step', 0)}-{str(found['checkpoint'])[:SHORT]}")


def about_to_be_replaced(run: RunDirectory, checkpoint: Path) -> None:
    """Move away the figures of the chosen weights before a file replaces these weights.

    Args:
        run: whose checkpoint is written.
        checkpoint: the file that is about to be written.
    """
    if checkpoint.name not in (run.chosen.name, run.best.name) or not run.measured():
        return
    try:
        label = weights_of(run.chosen).label
    except CheckpointError:
        label = "unknown"
    run.set_aside(label)


def unfinished(checkpoint: Path) -> str | None:
    """Say that the training of a checkpoint has not ended; None where it has, or nobody knows."""
    run = of_checkpoint(checkpoint)
    if run is None or not run.last.is_file() or run.finished("fit"):
        return None
    trainer = run.config().get("trainer") or {}
    epochs, steps = trainer.get("max_epochs"), trainer.get("max_steps")
    limit = f" of {epochs}" if isinstance(epochs, int) and epochs > 0 else ""
    limit += f" (at most {steps} steps)" if isinstance(steps, int) and steps > 0 else ""
    try:
        state = read_checkpoint(run.last, lazily=True)
    except CheckpointError:
        where = "its last.ckpt is damaged"
    else:
        reached, step = int(state.get("epoch", 0)) + 1, int(state.get("global_step", 0))
        where = f"it has reached epoch {reached}{limit}, step {step}"
    return f"run {run.name!r} has not ended its training ({where}): these figures are preliminary"
