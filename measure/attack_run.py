"""The command `attack` on a run: all recipes, one after the other, on a split of its corpus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl

from attacks.digests import file_digest
from attacks.interface import Outcome
from attacks.outcome import Sample
from attacks.victims.kinds import ModuleVictim, fastest_batch
from datamodules import TextDataModule
from datamodules.batching.examples import fingerprint
from lit_modules import TaskModule
from measure.archive import RunArchive
from measure.attack_mean import MeanArchive
from measure.attack_series import AttackSeries, run_series
from measure.attack_settings import AttackSettings, Planned, plan
from measure.corpus_split import words_read
from measure.runner import check_ledgers
from measure.text_attack import (
    AttackedModel,
    TextAttack,
    attack_subject,
    chosen,
    subjects,
)
from measure.validity_files import usual_checks
from run_files.distributed import dry
from run_files.shard import Shard
from run_files.version import version
from training.join import labelled_texts, require_classification
from training.launch import launch
from training.recorder import Recorder

_DRY = 8
"""Samples of Lightning's `fast_dev_run`."""


class Attacks(NamedTuple):
    """The outcomes of all attacks of a command.

    Attributes:
        outcomes: by the names of their files; none of one shard.
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
    """Attack a checkpoint with every recipe of the settings, one after the other.

    Each is filed in the run as soon as it has ended.

    Args:
        trainer: says where, and in how many processes.
        model: the victim.
        datamodule: the corpus.
        ckpt_path: checkpoint of the victim; None for its weights as they are.
        settings: of the attacks.
        recorder: keeps the run directory; None where nothing is kept.

    Raises:
        ValueError: wrong settings, or a run with an attack of the same name and other settings.
        ResourceError: word vectors or the like are missing.
        VictimError: the model gives no valid logits.
    """
    if not isinstance(datamodule, TextDataModule):
        msg = f"got {type(datamodule).__name__}, expected a corpus of texts to attack"
        raise ValueError(msg)
    # Before any word list is asked for.
    require_classification(datamodule.task, "attack")
    if trainer.limit_test_batches == 0:
        msg = "got --trainer.limit_test_batches 0, expected it to be left out"
        raise ValueError(msg)
    device = trainer.strategy.root_device  # models of attacks compute where the victim does
    checks = usual_checks(settings, device) if settings.validity else None
    planned = plan(settings, device=device)
    about = {
        "checkpoint": file_digest(ckpt_path) if ckpt_path and Path(ckpt_path).is_file() else "none",
        "precision": str(trainer.precision),
        "program": version(),
        "split": settings.split,
    }
    run, archive = None, None
    if recorder is not None and not dry(trainer):
        run = recorder.files
        archive = MeanArchive(RunArchive(recorder, trainer, model, datamodule.corpus))
        # What cannot be filed raises before the first attack begins.
        _check_all(planned, settings, run.path, about)
    facts = {
        "run": "no run" if run is None else run.name,
        "model": f"{type(model).__name__}, seed of its training "
        f"{'unknown' if recorder is None else recorder.training_seed}",
        "checkpoint": "none"
        if ckpt_path is None
        else f"{ckpt_path}, SHA-256 {about['checkpoint']}",
    }
    corpus = datamodule

    def work() -> AttackSeries:
        require_classification(model.task.name, "attack")
        identity: Mapping[str, Any] = {}
        if recorder is not None:
            if archive is not None and trainer.is_global_zero:
                recorder.measure_rows(corpus, settings.split)
            identity = recorder.identity(trainer, model, corpus.corpus)
        return run_series(
            planned,
            settings,
            attacked_model(
                trainer, model, corpus, settings, about=about, facts=facts, identity=identity
            ),
            archive,
            team=trainer,
            loggers=trainer.loggers,
            bar=trainer.is_global_zero and trainer.progress_bar_callback is not None,
        )

    series = launch(trainer, model, datamodule, ckpt_path, work, split=settings.split)
    valid: list[str] = []
    if checks is not None and run is not None and trainer.is_global_zero:
        valid = series.validity(run.path, checks)
    if settings.shard is not None:
        folder = None if run is None else run.path
        return Attacks({}, series.shard_report(folder, f"--run {facts['run']}"))
    where = f"{datamodule.corpus}, {settings.split} split, {settings.goal}"
    mean = "" if archive is None else archive.mean.line()
    table = series.report(
        f"{facts['run']}: {type(model).__name__} on {where}",
        model.require_text()[1],
        [*filter(None, [mean]), *valid],
    )
    return Attacks(series.outcomes(), table)


def _check_all(
    planned: Sequence[Planned], settings: AttackSettings, folder: Path, about: Mapping[str, Any]
) -> None:
    shard = None if settings.shard is None else Shard.of(settings.shard)
    for one in planned:
        path = folder / "attacks" / f"{one.name}.jsonl"
        check_ledgers(TextAttack, path, shard, {**attack_subject(one, settings), **about})


def attacked_model(
    trainer: pl.Trainer,
    model: TaskModule,
    corpus: TextDataModule,
    settings: AttackSettings,
    *,
    about: Mapping[str, Any],
    facts: Mapping[str, str],
    identity: Mapping[str, Any],
) -> AttackedModel:
    """Return a classifier and its samples of a split.

    Args:
        trainer: of the command.
        model: the classifier, with its weights.
        corpus: whose split has been read.
        settings: of the command.
        about: see `AttackedModel`.
        facts: see `AttackedModel`.
        identity: see `AttackedModel`.

    Raises:
        ValueError: the split has samples without labels.
    """
    split, names = settings.split, model.require_text()[1]
    examples = corpus.examples(split)
    most = _DRY * int(trainer.fast_dev_run) if dry(trainer) else None  # type: ignore[attr-defined] # set by a connector
    drawn = chosen(examples, settings, most)
    if any(example.label is None for example in drawn):
        msg = (
            f"{corpus.corpus}: got a {split} split without labels, expected labels: an attack "
            "succeeds where the gold class is left; try --attack.split validation, if the corpus "
            "has one"
        )
        raise ValueError(msg)
    samples = [
        Sample(sample_id=sample_id, text=text, label=label)
        for sample_id, text, label in labelled_texts(drawn)
    ]
    scope: dict[str, Any] = {
        "corpus": corpus.corpus,
        "columns": list(corpus.text_columns),
        "samples": fingerprint(examples),
    }
    threat = settings.threat.threat(words_read(model))
    if threat is not None:
        samples = list(subjects(samples, threat))
        k = "all" if threat.k is None else str(threat.k)
        scope["threat"] = {"name": threat.name, "k": k, "digest": threat.digest}
    return AttackedModel(
        victim=ModuleVictim(model, batch_size=fastest_batch(model, settings.batch_size)),
        class_names=names,
        samples=samples,
        columns=corpus.text_columns,
        about=about,
        scope=scope,
        facts={**facts, "corpus": f"{corpus.corpus}, {split} split"},
        identity=identity,
        threat=threat,
    )
