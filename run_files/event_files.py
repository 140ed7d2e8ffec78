"""The event files in which TensorBoard finds the figures of evaluations, one for each stage.

So a stage that is measured again takes the place of its former figures, and all of them leave with
the other files about weights that are no longer the run's (`MEASURED`).
"""

import glob
from typing import TYPE_CHECKING

from run_files.run_directory import FIGURES, RunDirectory

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def ending(stage: str) -> str:
    """Return the end of the names of a stage's files."""
    return f".{FIGURES}{stage.replace('/', '-')}"


def drop(run: RunDirectory, stage: str) -> None:
    """Delete the former figures of a stage."""
    for path in run.path.glob(f"events.out.tfevents.*{glob.escape(ending(stage))}"):
        path.unlink(missing_ok=True)


def evaluation_writer(run: RunDirectory, stage: str) -> "SummaryWriter":
    """Return a writer of a stage's figures, in the place of those that it had."""
    from torch.utils.tensorboard import SummaryWriter

    drop(run, stage)
    return SummaryWriter(str(run.path), filename_suffix=ending(stage))
