"""What to do about a run that is there already: go on, or refuse."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.results import Stage
from app.run_directory import RunDirectory

# How fast data come, and from where on this machine, but not which.
HARMLESS = {
    f"data.init_args.{name}"
    for name in ("data_dir", "eval_batch_size", "num_workers", "pin_memory", "batch_size")
}
# A training step sees a batch: its size is part of the training.
HARMLESS_IN_FIT = HARMLESS - {"data.init_args.batch_size"}
LIGHTNING_EPOCHS = 1000  # what Lightning trains for when neither epochs nor steps are limited


@dataclass(frozen=True)
class Plan:
    """What a command does.

    Attributes:
        stages: what is to be done, in order.
        checkpoint: what training goes on from, if it does.
        reopened: whether a finished run is trained further.
    """

    stages: tuple[Stage, ...]
    checkpoint: Path | None = None
    reopened: bool = False


def _leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree


def check_same(
    run: RunDirectory, config: Mapping[str, Any], keys: tuple[str, ...], harmless: set[str]
) -> None:
    """Refuse to mix settings within one run.

    Args:
        run: the run, with its stored settings.
        config: the settings given now.
        keys: parts of the settings that have to agree.
        harmless: settings within them that may differ all the same.

    Raises:
        ValueError: some differ; the message lists them.
    """
    stored = run.config()
    before = dict(_leaves({key: stored[key] for key in keys if key in stored}))
    now = dict(_leaves({key: config[key] for key in keys}))
    different = [
        f"{name.replace('.init_args', '')}: {before[name]!r} in the run, {now.get(name)!r} given"
        for name in before
        if before[name] != now.get(name) and name not in harmless
    ]
    if different:
        msg = (
            f"run {run.name!r} was made with other settings ({'; '.join(different)}); "
            "repeat its settings, or choose another --run"
        )
        raise ValueError(msg)


def _limit(value: int | None, unlimited: int | None, otherwise: float) -> float:
    return otherwise if value is None or value == unlimited else value


def _longer(stored: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether more epochs or steps are asked for than the run was made with."""
    epochs, steps = given.get("max_epochs"), given.get("max_steps", -1)
    more_epochs = epochs is not None and _limit(epochs, -1, float("inf")) > _limit(
        stored.get("max_epochs", LIGHTNING_EPOCHS), -1, LIGHTNING_EPOCHS
    )
    more_steps = steps != -1 and steps > _limit(stored.get("max_steps", -1), -1, float("inf"))
    return more_epochs or more_steps


def plan_training(run: RunDirectory, config: Mapping[str, Any], *, whole: bool) -> Plan:
    """Decide what `fit` (or `train`, the `whole` of fit, test and certify) has to do.

    A run that is not there is begun; an unfinished one goes on from `last.ckpt`; a finished one is
    trained further if more epochs or steps are asked for.

    Raises:
        ValueError: the run is finished, or has other settings.
    """
    stages: tuple[Stage, ...] = ("fit", "test", "certify") if whole else ("fit",)
    if not run.begun:
        return Plan(stages)
    check_same(run, config, ("seed_everything", "model", "data"), HARMLESS_IN_FIT)
    last = run.last if run.last.is_file() else None
    if not run.finished("fit"):
        return Plan(stages, last)
    if last is not None and _longer(run.config().get("trainer", {}), config["trainer"]):
        return Plan(stages, last, reopened=True)
    pending = tuple(stage for stage in stages if not run.finished(stage))
    if not pending:
        msg = (
            f"run {run.name!r} is finished: evaluate it with `steadfast test --run {run.name}`, "
            "train it further with a larger --trainer.max_epochs, or choose another --run"
        )
        raise ValueError(msg)
    return Plan(pending)
