"""Attack a run with all recipes of the command, on a split of its corpus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl

from attacks.interface import Outcome
from attacks.outcome import Sample
from attacks.resources.catalogue import Resources
from attacks.validity.checks import Checks
from attacks.victims.kinds import as_victim
from datamodules import TextDataModule
from datamodules.batching.examples import fingerprint
from datamodules.labelled_texts import labelled_numbers, labelled_texts
from lit_modules import TaskModule
from lit_modules.checkpoints.exported import checkpoint_digest
from measure.archive import RunArchive
from measure.attack_mean import MeanArchive
from measure.attack_series import AttackSeries, run_series
from measure.attack_settings import AttackSettings, plan
from measure.corpus_split import words_read
from measure.runner import check_ledgers
from measure.surrogates import Surrogates
from measure.text_attack import (
    AttackedModel,
    TextAttack,
    attack_subject,
    choose_samples,
    confine_samples,
)
from measure.validity_files import usual_checks
from run_files.distributed import dry
from run_files.shard import Shard
from run_files.version import version
from training.launch import launch
from training.model_checks import require_attackable
from training.recorder import Recorder

_DRY = 8
"""Samples of Lightning's `fast_dev_run`."""


class Attacks(NamedTuple):
    """The outcomes of the attacks of a command by file (of a shard none), and their table."""

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

    Each outcome is filed in the run as soon as its attack has ended; without `recorder`, nothing is
    filed. Without `ckpt_path`, the present weights of the model are attacked.

    Raises:
        ValueError: wrong settings, or a run with an attack of the same name and other settings.
        ResourceError: a resource is missing, for example word vectors.
        VictimError: the logits of the model are invalid.
    """
    corpus = _check_corpus(trainer, datamodule)
    if settings.threshold is not None:
        msg = (
            f"got threshold {settings.threshold} for a run, whose own threshold counts, expected "
            "it only with --victim: leave --attack.threshold out"
        )
        raise ValueError(msg)
    device = trainer.strategy.root_device  # the models of attacks use the device of the victim
    # Loaded now: a missing WordNet must not surface after the attacks.
    checks = usual_checks(settings, device) if settings.validity else None
    planned = plan(settings, device=device)
    model_subject = _model_subject(trainer, ckpt_path, settings.split)
    archive = None
    if recorder is not None and not dry(trainer):
        archive = MeanArchive(RunArchive(recorder, trainer, model, corpus.corpus))
        shard = None if settings.shard is None else Shard.of(settings.shard)
        for attack_plan in planned:
            # Raises now, not after hours of the attacks before it.
            path = archive.files.path / "attacks" / f"{attack_plan.name}.jsonl"
            subject = {**attack_subject(attack_plan, settings), **model_subject}
            check_ledgers(TextAttack, path, shard, subject)

    def work() -> AttackSeries:
        attacked = _describe(
            trainer,
            model,
            corpus,
            settings,
            model_subject=model_subject,
            ckpt_path=ckpt_path,
            archive=archive,
            recorder=recorder,
        )
        bar = trainer.is_global_zero and trainer.progress_bar_callback is not None
        return run_series(
            planned, settings, attacked, archive, team=trainer, loggers=trainer.loggers, bar=bar
        )

    series = launch(trainer, model, corpus, ckpt_path, work, split=settings.split)
    title = f"{type(model).__name__} on {corpus.corpus}, {settings.split} split, {settings.goal}"
    validity = checks if trainer.is_global_zero else None
    return _report(series, archive, validity, title, model.require_text()[1])


def _model_subject(trainer: pl.Trainer, ckpt_path: str | Path | None, split: str) -> dict[str, str]:
    """Return the entries of the subject of an attack about the model and the split."""
    checkpoint = Path(ckpt_path) if ckpt_path else None
    digest = "none"
    if checkpoint is not None and checkpoint.exists():
        digest = checkpoint_digest(checkpoint)
    return {
        "checkpoint": digest,
        "precision": str(trainer.precision),
        "program": version(),
        "split": split,
    }


def _describe(
    trainer: pl.Trainer,
    model: TaskModule,
    corpus: TextDataModule,
    settings: AttackSettings,
    *,
    model_subject: Mapping[str, Any],
    ckpt_path: str | Path | None,
    archive: MeanArchive | None,
    recorder: Recorder | None,
) -> AttackedModel:
    """Return the loaded model as a victim, with its samples and the facts of its run, if any.

    Raises:
        ValueError: the split has samples without labels.
    """
    # Again: only the checkpoint names the task of the model itself.
    require_attackable(model.task.name)
    if recorder is not None and archive is not None and trainer.is_global_zero:
        # One process computes the digest of the rows, for the subject in `results.json`.
        recorder.measure_rows(corpus, settings.split)
    split, names = settings.split, model.require_text()[1]
    examples = corpus.examples(split)
    most = _DRY * int(trainer.fast_dev_run) if dry(trainer) else None  # type: ignore[attr-defined] # set by a connector
    detected = getattr(getattr(model, "detector", None), "positive", corpus.positive)
    positive = settings.positive_class(names, detected)
    drawn = choose_samples(examples, settings, most, positive)
    if any(example.label is None for example in drawn):
        msg = (
            f"{corpus.corpus}: got a {split} split without labels, expected labels: an attack "
            "succeeds where the prediction leaves the gold class; try --attack.split validation, "
            "if the corpus has one"
        )
        raise ValueError(msg)
    # The id is the position in the split: the same sample for every attack.
    rows = labelled_texts(drawn) if model.task.name == "classification" else labelled_numbers(drawn)
    samples = [
        Sample(sample_id=sample_id, text=text, label=label) for sample_id, text, label in rows
    ]
    scope: dict[str, Any] = {
        "corpus": corpus.corpus,
        "columns": list(corpus.text_columns),
        "samples": fingerprint(examples),
    }
    # The threat must split words as the model does, or it is about other texts.
    threat = settings.threat.threat(words_read(model), Resources.of(settings))
    if threat is not None:
        samples = list(confine_samples(samples, threat))
        k = "all" if threat.k is None else str(threat.k)
        scope["threat"] = {"name": threat.name, "k": k, "digest": threat.digest}
    seed = "unknown" if recorder is None else recorder.training_seed
    digest = model_subject["checkpoint"]
    runs_dir = Path("runs") if recorder is None else recorder.run.path.parent
    return AttackedModel(
        victim=as_victim(model, batch_size=settings.batch_size),
        class_names=names,
        samples=samples,
        columns=corpus.text_columns,
        subject=model_subject,
        scope=scope,
        facts={
            "run": "no run" if archive is None else archive.files.name,
            "model": f"{type(model).__name__}, seed of its training {seed}",
            "checkpoint": "none" if ckpt_path is None else f"{ckpt_path}, SHA-256 {digest}",
            "corpus": f"{corpus.corpus}, {split} split",
        },
        identity={} if recorder is None else recorder.identity(trainer, model, corpus.corpus),
        threat=threat,
        positive=positive,
        certifier=model.text_certifier,
        surrogates=Surrogates(names, runs_dir, trainer.strategy.root_device, settings.batch_size),
        texts=lambda: [(text, label) for _, text, label in labelled_texts(corpus.training_rows())],
    )


def _report(
    series: AttackSeries,
    archive: MeanArchive | None,
    checks: Checks | None,
    title: str,
    class_names: Sequence[str],
) -> Attacks:
    """Return the outcomes and their table; file the validity that `checks` find."""
    folder = None if archive is None else archive.files.path
    name = "no run" if archive is None else archive.files.name
    valid = [] if checks is None or folder is None else series.validity(folder, checks)
    if series.shard is not None:
        return Attacks({}, series.shard_report(folder, f"--run {name}"))
    mean = [] if archive is None else [archive.mean.line()]
    notes = [*filter(None, mean), *valid]
    return Attacks(series.outcomes(), series.report(f"{name}: {title}", class_names, notes))


def _check_corpus(trainer: pl.Trainer, datamodule: pl.LightningDataModule | None) -> TextDataModule:
    """Return the corpus; raise ValueError unless it can be attacked."""
    if not isinstance(datamodule, TextDataModule):
        msg = f"got {type(datamodule).__name__}, expected a corpus of texts to attack"
        raise ValueError(msg)
    # Before a missing resource: the user can do nothing about the task.
    require_attackable(datamodule.task)
    if trainer.limit_test_batches == 0:
        msg = "got --trainer.limit_test_batches 0, expected it to be left out"
        raise ValueError(msg)
    return datamodule
