"""TensorBoard's event files of evaluations, one for each stage.

So a stage that is measured again replaces its former figures, and `RunDirectory.set_aside` can move
them (`MEASURED`).
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
    # A stage may contain characters of a glob pattern.
    for path in run.path.glob(f"events.out.tfevents.*{glob.escape(ending(stage))}"):
        path.unlink(missing_ok=True)


def evaluation_writer(run: RunDirectory, stage: str) -> "SummaryWriter":
    """Return a writer for the figures of a stage; the former figures are deleted."""
    from torch.utils.tensorboard import SummaryWriter

    drop(run, stage)
    return SummaryWriter(str(run.path), filename_suffix=ending(stage))
