"""The command `attack`: all recipes, one after the other, through Lightning's test loop."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl

from app.attack.attack_evaluator import AttackEvaluator
from app.attack.attack_files import AttackFiles
from app.attack.attack_mean import Mean, former, mean_accuracy
from app.attack.attack_report import report
from app.attack.attack_settings import AttackSettings, applied, plan
from app.attack.attack_shard import ShardEvaluator
from app.attack.validity_command import filed, usual_checks
from app.cli.terminal import harmless
from app.runs.recorder import Recorder
from app.runs.version import version
from app.training.interrupt import Stopped, interruption
from app.training.join import require_classification
from app.training.session import session
from app.training.stand_in import WholeSplit
from attacks.composition import Attack
from attacks.digests import file_digest
from attacks.engine import VERSION
from attacks.fingerprint import describe, flat
from attacks.interface import Outcome
from attacks.validity.checks import ValidityLimits
from datamodules import TextDataModule
from lit_modules import TaskModule


def parts_of(attack: Attack) -> dict[str, Any]:
    """Describes an attack and its resources; the goal is in the settings."""
    parts = flat(describe(attack), "attack")
    return {"engine": VERSION} | {
        key: value for key, value in parts.items() if not key.startswith("attack.goal")
    }


class Attacks(NamedTuple):
    """The outcomes of all attacks of a command.

    Attributes:
        outcomes: by the names of their files; none of a part of the samples.
        report: the table for people.
    """

    outcomes: dict[str, Outcome]
    report: str


def attack(
    trainer: pl.Trainer,
    model: TaskModule,
    datamodule: pl.LightningDataModule | None,
    ckpt_path: str | Path | None,
    settings: AttackSettings,
    *,
    recorder: Recorder | None,
) -> Attacks:
    """Attacks a checkpoint with every recipe of the settings, one after the other.

    Each is filed in the run as soon as it has ended.

    Args:
        trainer: runs the attacks inside its test loop.
        model: the victim.
        datamodule: the corpus.
        ckpt_path: checkpoint of the victim; None for its weights as they are.
        settings: of the attacks.
        recorder: keeps the run directory; None where nothing is kept.

    Raises:
        ValueError: wrong settings, or a run with an attack of the same name and other settings.
        ResourceError: word vectors or the like are missing.
        VictimError: the answers of the model are no logits.
    """
    if not isinstance(datamodule, TextDataModule):
        msg = f"got {type(datamodule).__name__}, expected a corpus of texts to attack"
        raise ValueError(msg)
    # Before any word list is asked for.
    require_classification(datamodule.task, "attack")
    checks = usual_checks(settings, trainer.strategy.root_device) if settings.validity else None
    evaluators = _evaluators(trainer, model, ckpt_path, settings, recorder)
    mean = Mean(names=())
    for evaluator in evaluators:
        if recorder is not None and evaluator.files is not None:
            recorder.show(trainer.loggers, f"attack/{evaluator.planned.name}")
        _test(trainer, evaluator, WholeSplit(datamodule, settings.split), ckpt_path)
        if isinstance(evaluator, ShardEvaluator):
            continue
        stage, metrics = f"attack/{evaluator.planned.name}", evaluator.metrics()
        done = {one.planned.name: one.attacked for one in evaluators if one.attacked is not None}
        if recorder is None or evaluator.files is None:
            mean = mean_accuracy(done)
            continue
        mean = mean_accuracy({**former(recorder.files, stage, metrics), **done})
        recorder.finish(
            trainer,
            model,
            stage=stage,
            metrics=metrics | mean.metrics(),
            seconds=evaluator.seconds,
            about=evaluator.about,
        )
    valid: list[str] = []
    if checks is not None and trainer.is_global_zero:
        files = [one.files.outcome for one in evaluators if one.files is not None]
        valid = [line for path in files for line in filed(path, checks, ValidityLimits())]
    if settings.shard is not None:
        return Attacks({}, _parts(evaluators))
    outcomes = {one.planned.name: one.outcome for one in evaluators if one.outcome is not None}
    spent = ", ".join(f"{one.planned.name} {one.seconds:.1f} s" for one in evaluators)
    where = f"{datamodule.corpus}, {settings.split} split, {settings.goal}"
    table = report(
        outcomes,
        model.require_text()[1],
        show=settings.show,
        title=f"{evaluators[0].facts['run']}: {type(model).__name__} on {where} ({spent})",
        notes=[
            *applied(settings, [one.planned for one in evaluators]),
            *filter(None, [mean.line()]),
            *valid,
        ],
    )
    return Attacks(outcomes, table)


def _evaluators(
    trainer: pl.Trainer,
    model: TaskModule,
    ckpt_path: str | Path | None,
    settings: AttackSettings,
    recorder: Recorder | None,
) -> list[AttackEvaluator]:
    """Prepares all attacks; one that cannot be filed raises before the first begins."""
    # Models of attacks compute where the victim does.
    planned = plan(settings, device=trainer.strategy.root_device)
    checkpoint = file_digest(ckpt_path) if ckpt_path and Path(ckpt_path).is_file() else "none"
    run = None if recorder is None or getattr(trainer, "fast_dev_run", False) else recorder.files
    seed = "unknown" if recorder is None else str(recorder.training_seed)
    facts = {
        "run": "no run" if run is None else run.name,
        "model": f"{type(model).__name__}, seed of its training {seed}",
        "checkpoint": "none" if ckpt_path is None else f"{ckpt_path}, SHA-256 {checkpoint}",
    }
    evaluators: list[AttackEvaluator] = []
    for one in planned:
        about = {
            **one.about,
            **settings.about(),
            **parts_of(one.attack),
            "checkpoint": checkpoint,
            "precision": str(trainer.precision),
            "program": version(),
        }
        evaluator: AttackEvaluator
        if settings.shard is None:
            files = None if run is None else AttackFiles(run, one.name)
            evaluator = AttackEvaluator(model, one, settings, files=files, about=about, facts=facts)
        else:
            evaluator = ShardEvaluator(
                model,
                one,
                settings,
                run=run,
                about=about,
                facts=facts,
                place=len(evaluators),
                recorder=recorder,
            )
        if (problem := evaluator.problem(about)) is not None:
            raise ValueError(problem)
        evaluators.append(evaluator)
    return evaluators


def _parts(evaluators: Sequence[AttackEvaluator]) -> str:
    """Returns what is printed in the place of a table, which parts do not have."""
    lines = [one.line() for one in evaluators if isinstance(one, ShardEvaluator)]
    run = evaluators[0].facts["run"]
    merge = f"with all shards in one folder: python -m steadfast attack merge --run {run}"
    return "\n".join(["", *map(harmless, [*lines, merge])])


def _test(
    trainer: pl.Trainer,
    evaluator: AttackEvaluator,
    data: WholeSplit,
    ckpt_path: str | Path | None,
) -> None:
    """Runs one attack in the test loop."""
    with (
        _own_bar(trainer),
        _kept_parts(trainer, evaluator.files),
        session(trainer, evaluator.classifier, ckpt_path) as path,
    ):
        pl.Trainer.test(trainer, evaluator, None, path, False, data, True if path else None)
    if not evaluator.ended:
        msg = "got --trainer.limit_test_batches 0, expected it to be left out"
        raise ValueError(msg)


@contextmanager
def _own_bar(trainer: pl.Trainer) -> Iterator[None]:
    """Silences Lightning's bar, which would show one step, inside the context."""
    bar = trainer.progress_bar_callback
    if bar is None:
        yield
        return
    bar.disable()
    try:
        yield
    finally:
        bar.enable()


@contextmanager
def _kept_parts(trainer: pl.Trainer, files: AttackFiles | None) -> Iterator[None]:
    """Tells where the samples are kept when a signal stops the program."""
    try:
        yield
    except Stopped:
        # With several processes, those that wait for each other have to be stopped, too.
        if files is not None and trainer.world_size == 1:
            interruption.saved = str(files.outcome.with_suffix(".parts"))
        raise
