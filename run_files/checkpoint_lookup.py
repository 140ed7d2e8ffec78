"""Finds the run and the checkpoint that a command evaluates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_files.run_directory import RunDirectory, existing, named, of_checkpoint
from text.torch_archive import CHECKPOINT_FORMAT, CHECKPOINT_KEY, check_archive


def find_checkpoint(
    command: str,
    runs: Path,
    name: str | None,
    ckpt_path: str | Path | None,
    *,
    begins: bool = False,
) -> tuple[RunDirectory | None, Path]:
    """Return the run and the checkpoint of an evaluation, by `--run` and `--ckpt_path`.

    The run is None for a checkpoint outside of runs. With `begins`, a new name and a checkpoint
    begin a run.

    Raises:
        FileNotFoundError: the run does not exist.
        ValueError: both options are missing, or the checkpoint belongs to another run.
    """
    if ckpt_path is None:
        run = existing(runs, named(command, name))
        return run, evaluated_checkpoint(run)
    checkpoint = Path(ckpt_path)
    if name is None:
        return of_checkpoint(checkpoint), checkpoint
    run = RunDirectory(runs / name) if begins else existing(runs, name)
    if run.begun:
        check_belongs(run, checkpoint)
    return run, checkpoint


def evaluated_checkpoint(run: RunDirectory) -> Path:
    """Return the checkpoint of a run: its own, or the one with which an evaluation has begun it.

    Raises:
        ValueError: that one has moved, or has other weights now.
    """
    checkpoint = run.source_checkpoint()
    if checkpoint is None:
        return run.chosen
    if not checkpoint.exists():
        msg = (
            f"got run {run.name!r}, which has no weights of its own, and {checkpoint} is gone; "
            "expected the place of these weights: --ckpt_path"
        )
        raise ValueError(msg)
    check_belongs(run, checkpoint)
    return checkpoint


def check_belongs(run: RunDirectory, checkpoint: Path) -> None:
    """Refuse to write figures of another run's checkpoint into a run.

    A run that began with an evaluation has no checkpoint of its own: it keeps the digest of that
    one.

    Raises:
        ValueError: the checkpoint belongs to another run.
    """
    # It loads torch, which a report of files does without.
    from lit_modules.checkpoints.exported import checkpoint_digest

    home = of_checkpoint(checkpoint)
    if home is not None and home.path.resolve() == run.path.resolve():
        return
    source = run.source()
    # A missing file is an error where it is read, with a better message.
    if source is not None and (not checkpoint.exists() or checkpoint_digest(checkpoint) == source):
        return
    msg = (
        f"got run {run.name!r} and a checkpoint that is not of it ({checkpoint}); leave --run out, "
        "or give a new name"
    )
    raise ValueError(msg)


def checkpoint_text(run: RunDirectory) -> Mapping[str, Any]:
    """Return task, classes and text settings of a run's checkpoint; empty if it is unreadable.

    Methods that learn without labels store no task: it says so. It needs no torch: a report of a
    finished run must not wait for it.
    """
    if not run.chosen.is_file():
        return {}
    try:
        content = check_archive(run.chosen)[CHECKPOINT_KEY]
        plain = content["format"] == CHECKPOINT_FORMAT and isinstance(content, dict)
    except (KeyError, TypeError, ValueError):
        return {}
    names = content.get("class_names")
    readable = plain and all(isinstance(name, str) for name in names or ())
    return {"task": "model without labels", **content} if readable else {}
