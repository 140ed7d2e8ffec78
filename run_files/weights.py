"""Find the weights that figures are about, and the folder of these figures in a run."""

import hashlib
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from attacks.digests import SHORT, file_digest
from lit_modules import CheckpointError, read_checkpoint
from lit_modules.checkpoints.exported import checkpoint_digest
from run_files import results
from run_files.run_directory import RunDirectory, of_checkpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Weights:
    """The weights that an evaluation measures."""

    checkpoint: str  # SHA-256 of their file
    file: str  # name of the file
    epoch: int  # in which they were saved, counted from 1
    step: int  # optimiser steps before they were saved
    training_ended: bool | None  # None outside of a run

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
        """Return the weights as JSON."""
        return asdict(self)


def weights_of(checkpoint: Path) -> Weights:
    """Identify the weights in a checkpoint.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    content = read_checkpoint(checkpoint, lazily=True)
    home = of_checkpoint(checkpoint)
    return Weights(
        checkpoint=checkpoint_digest(checkpoint),
        file=checkpoint.name,
        # Lightning counts from 0.
        epoch=int(content.get("epoch", 0)) + 1,
        step=int(content.get("global_step", 0)),
        training_ended=None if home is None else home.finished("fit"),
    )


def tensors_digest(checkpoint: Path) -> str:
    """Return the SHA-256 of the tensors of a checkpoint, in the order of their names.

    The file also has paths and durations. So two runs of the same training have different files,
    but the same tensors, bit by bit.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(read_checkpoint(checkpoint)["state_dict"].items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        # As bytes: NumPy has no bfloat16.
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def shelf(run: RunDirectory, weights: Weights) -> RunDirectory:
    """Return the folder of a run for the figures of these weights.

    It is the run itself for the chosen checkpoint, and a folder in `others/` for any other one: all
    figures in a folder are about the same weights.
    """
    chosen = run.chosen
    if not chosen.is_file() or file_digest(chosen) == weights.checkpoint:
        return run
    return run.apart(weights.label)


def keep_apart(run: RunDirectory, weights: Weights) -> None:
    """Move away the figures of a run that belong to other weights."""
    foreign = results.foreign_subjects(run.results(), checkpoint=weights.checkpoint)
    for subject in {subject["checkpoint"]: subject for subject in foreign}.values():
        run.set_aside(f"step-{subject.get('step', 0)}-{str(subject['checkpoint'])[:SHORT]}")


def about_to_be_replaced(run: RunDirectory, checkpoint: Path) -> None:
    """Move away the figures of the chosen weights before `checkpoint` is written."""
    # Figures are about `best.ckpt`, or `last.ckpt` without it: other files do not matter.
    if checkpoint.name not in (run.chosen.name, run.best.name) or not run.measured():
        return
    try:
        label = weights_of(run.chosen).label
    except CheckpointError:
        label = "unknown"
    run.set_aside(label)


def warn_unfinished(checkpoint: Path) -> None:
    """Warn if the training of a checkpoint has not ended."""
    run = of_checkpoint(checkpoint)
    if run is None or not run.last.is_file() or run.finished("fit"):
        return
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
    log.warning(
        "run %r has not ended its training (%s): these figures are preliminary", run.name, where
    )
