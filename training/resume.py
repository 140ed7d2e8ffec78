"""Decides whether a command resumes an existing run or refuses it."""

import logging
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lit_modules import CheckpointError, TaskModule, TextModule, read_checkpoint
from lit_modules.checkpoints.exported import checkpoint_digest
from run_files.harmless_settings import HARMLESS, HARMLESS_IN_FIT
from run_files.results import Stage
from run_files.run_directory import RunDirectory
from text.module_names import find_class
from text.subjects import Difference, differences, flat
from training.early_stopping import LIGHTNING_EPOCHS, stopped_early

log = logging.getLogger(__name__)

PARTS = ("seed_everything", "model", "data", "trainer", "checkpoint", "early_stopping", "detect")
"""The parts of the settings of a run that its figures depend on."""
# A run may get these settings later: nothing that it has trained or measured depends on them.
ADDITIONS = ("data.init_args.test",)


@dataclass(frozen=True)
class Plan:
    """The plan of a command.

    Attributes:
        stages: stages to run, in order.
        checkpoint: checkpoint from which training resumes, if any.
        step: optimiser steps before that checkpoint.
        reopened: True if a finished run is trained further.
    """

    stages: tuple[Stage, ...]
    checkpoint: Path | None = None
    step: int = 0
    reopened: bool = False


def changed_settings(
    run: RunDirectory, config: Mapping[str, Any], keys: Collection[str], harmless: Collection[str]
) -> list[Difference]:
    """Return the settings that differ from those of a run, by their dotted names.

    Parts of the settings (`keys`) are compared, without those that are `harmless`.
    """
    before, now = (
        flat({key: of[key] for key in keys if key in of}) for of in (run.config(), config)
    )
    return [change for change in differences(before, now) if change.name not in harmless]


def check_same(
    run: RunDirectory,
    config: Mapping[str, Any],
    keys: tuple[str, ...],
    harmless: set[str],
    *,
    checkpoint: Path | None = None,
) -> None:
    """Refuse to mix settings within one run: parts of them (`keys`) have to agree.

    `harmless` settings may differ. `checkpoint` is the evaluated one; None for a training.

    Raises:
        ValueError: some differ; the message lists them.
    """
    stored = flat(run.config())
    # A setting that only this version has is no difference: the run used its default.
    changes = [c for c in changed_settings(run, config, keys, harmless) if c.name in stored]
    # If the class differs, the message names the class and leaves out its settings.
    of_others = tuple(
        f"{change.name.removesuffix('class_path')}init_args."
        for change in changes
        if change.name.endswith("class_path")
    )
    different = [
        f"{name.replace('.init_args', '')}: {before!r} in the run, {now!r} given"
        for name, before, now in changes
        if not name.startswith(of_others) and not (name in ADDITIONS and before is None)
    ]
    if different:
        # Another run would have other weights, so an evaluation needs the checkpoint as well.
        other = "choose another --run"
        if checkpoint is not None:
            other = f"give the evaluation a name of its own: --ckpt_path {checkpoint} --run NEW"
        msg = (
            f"run {run.name!r} was made with other settings ({'; '.join(different)}); "
            f"repeat its settings, or {other}"
        )
        raise ValueError(msg)


def with_additions(stored: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored settings, completed by the present values of `ADDITIONS`."""
    # The stored settings are compared with the completed ones afterwards.
    completed = deepcopy(stored)
    before, now = flat(stored), flat(config)
    for name in ADDITIONS:
        if name in before and before[name] is None and now.get(name) is not None:
            *path, last = name.split(".")
            inner = completed
            for key in path:
                inner = inner[key]
            inner[last] = now[name]
    return completed


def _limit(value: int | None, unlimited: int | None, otherwise: float) -> float:
    return otherwise if value is None or value == unlimited else value


def _longer(stored: Mapping[str, Any], requested: Mapping[str, Any]) -> bool:
    """Return True if the new limits allow more epochs or steps than the stored ones."""
    # Lightning writes "no limit" as -1 for both, and "not set" as None for epochs.
    epochs, steps = requested.get("max_epochs"), requested.get("max_steps", -1)
    more_epochs = epochs is not None and _limit(epochs, -1, float("inf")) > _limit(
        stored.get("max_epochs", LIGHTNING_EPOCHS), -1, LIGHTNING_EPOCHS
    )
    more_steps = steps != -1 and steps > _limit(stored.get("max_steps", -1), -1, float("inf"))
    return more_epochs or more_steps


def _more_patient(stored: Mapping[str, Any], requested: Mapping[str, Any]) -> bool:
    """Return True if a fit that stopped early would continue with the new patience."""
    before, now = (
        settings.get("early_stopping", {}).get("patience") for settings in (stored, requested)
    )
    return bool(before) and now is not None and (now == 0 or now > before)


def newest_state(run: RunDirectory) -> tuple[Path, int] | None:
    """Return the newest undamaged checkpoint of a run and its step; None before the first.

    Raises:
        CheckpointError: all checkpoints are damaged.
    """
    damage: list[str] = []
    for path in (run.last, run.previous):
        if not path.is_file():
            continue
        try:
            checkpoint = read_checkpoint(path, lazily=True)
        except CheckpointError as error:
            damage.append(str(error))
            continue
        step = int(checkpoint["global_step"])
        if damage:
            log.warning("%s; going on from %s instead", damage[0], path)
        elif path == run.previous:
            log.warning("%s is missing; going on from %s instead", run.last, path)
        log.info("run %s resumes after step %d", run.name, step)
        return path, step
    if damage:
        msg = (
            f"run {run.name!r} has no undamaged checkpoint to resume from ({'; '.join(damage)})"
            "; move its directory away to begin anew, or choose another --run"
        )
        raise CheckpointError(msg)
    return None


def _asks_for_more(run: RunDirectory, config: Mapping[str, Any]) -> bool:
    """Return True if the settings ask for more training of a finished run."""
    stored = run.config()
    if _longer(stored.get("trainer", {}), config["trainer"]):
        return True
    more = _more_patient(stored, config) and run.last.is_file()
    return more and stopped_early(read_checkpoint(run.last, lazily=True))


def _classifies(config: Mapping[str, Any]) -> bool:
    """Return True if the method classifies: only then it can be certified."""
    method = find_class(str(config.get("model", {}).get("class_path", "")))
    if not isinstance(method, type) or not issubclass(method, TextModule):
        return True
    return issubclass(method, TaskModule)


def plan_training(run: RunDirectory, config: Mapping[str, Any], *, all_stages: bool) -> Plan:
    """Decide which stages `fit` or, with `all_stages`, `train` has to run, from which checkpoint.

    An unfinished run resumes from `last.ckpt`, or from `previous.ckpt` if that is damaged. A
    finished run is trained further if the settings ask for more epochs or steps, or for more
    patience after an early end. The run may not exist yet.

    Raises:
        CheckpointError: the checkpoints of the run are damaged.
        ValueError: the run is finished, or has other settings.
    """
    stages: tuple[Stage, ...] = ("fit",)
    if all_stages:
        stages = ("fit", "test", "certify") if _classifies(config) else ("fit", "test")
    if not run.begun:
        return Plan(stages)
    # With another number of processes each may have another batch size; the loader keeps the size
    # of their common batch.
    other_world = config.get("checkpoint", {}).get("allow_world_change", False)
    harmless = HARMLESS if other_world else HARMLESS_IN_FIT
    check_same(run, config, ("seed_everything", "model", "data", "detect"), harmless)
    finished = run.finished("fit")
    if not finished or _asks_for_more(run, config):
        state = newest_state(run)
        if state is not None:
            return Plan(stages, *state, reopened=finished)
        if not finished:
            return Plan(stages)
    pending = tuple(stage for stage in stages if not run.finished(stage))
    if not pending:
        msg = (
            f"run {run.name!r} is finished: evaluate it with `steadfast test --run {run.name}`, "
            "train it further with a larger --trainer.max_epochs, or choose another --run"
        )
        raise ValueError(msg)
    return Plan(pending)


def first_checkpoint(run: RunDirectory, plan: Plan, given: Path | None) -> Path | None:
    """Return the checkpoint with which a command begins; None for new weights.

    A run that began with the checkpoint of another run resumes from its own one, by the same
    command as well. Before it has its own, it begins with that one again. The run may not exist
    yet; `given` is the value of `--ckpt_path`.

    Raises:
        ValueError: the run has its own checkpoint and did not begin with the given one; or that
            with which it began is gone or has changed.
    """
    start = run.start() if run.begun else None
    if plan.checkpoint is not None:
        if given is not None and (start is None or not _is_start(given, *start)):
            msg = (
                f"got --ckpt_path {given} and run {run.name!r}, which resumes from its own "
                "last.ckpt; leave --ckpt_path out, or choose another --run"
            )
            raise ValueError(msg)
        return plan.checkpoint
    if given is not None or start is None or "fit" not in plan.stages:
        return given
    digest, path = start
    if not path.is_file() or checkpoint_digest(path) != digest:
        state = "has other weights now" if path.is_file() else "is gone"
        msg = (
            f"got run {run.name!r}, which has no checkpoint yet and began with that of {path}, "
            f"which {state}; expected its place: --ckpt_path, or choose another --run"
        )
        raise ValueError(msg)
    return path


def _is_start(checkpoint: Path, digest: str, path: Path) -> bool:
    same_file = checkpoint.absolute() == path
    return same_file or (checkpoint.is_file() and checkpoint_digest(checkpoint) == digest)
