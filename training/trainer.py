"""Lightning's trainer, with attacks in its tests, and a run directory."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytorch_lightning as pl
from torch import Tensor
from typing_extensions import override

from attacks import PGD, PGDSettings
from datamodules import TextDataModule
from lit_modules import AdversarialTraining, Detection, TaskModule
from run_files.certified_bounds import STAGE_OF
from run_files.results import Stage
from run_files.run_directory import RunDirectory
from run_files.sample_records import Records
from run_files.version import version
from run_files.weights import weights_of
from text.subjects import Subject
from training.bag_of_words import bag_figures
from training.calibration import set_temperature
from training.checkpoint_callbacks import LastCheckpoint
from training.record_writers import AttackWriter, RecordWriter
from training.recorder import Recorder, numbers
from training.session import session
from training.slice_figures import SliceFigures
from training.threshold import UnshiftedWeights, set_threshold

log = logging.getLogger(__name__)

LIMITS: dict[str, str] = {
    "validate": "limit_val_batches",
    "test": "limit_test_batches",
    **dict.fromkeys(STAGE_OF.values(), "limit_test_batches"),
    "predict": "limit_predict_batches",
}
"""The limit of batches of each evaluation."""
T = TypeVar("T")
W = TypeVar("W", bound=RecordWriter)


class RobustTrainer(pl.Trainer):
    """Fits, tests under attack, and keeps the outcome in a run directory.

    Attributes:
        recorder: writes the run directory; set by the command line, None for a trainer in Python.
        detection: settings of the threshold that is chosen at the end of a fit.
    """

    # Set by Lightning, which does not declare them.
    callbacks: list[pl.Callback]
    fast_dev_run: bool | int

    recorder: Recorder | None = None
    detection: Detection = Detection()

    @override
    def fit(
        self,
        model: pl.LightningModule,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: str | Path | None = None,
        weights_only: bool | None = None,
    ) -> None:
        """Train a model, or resume the training of a run.

        Args:
            model: the model.
            train_dataloaders: see Lightning.
            val_dataloaders: see Lightning.
            datamodule: the corpus.
            ckpt_path: start from the state in this checkpoint: weights, optimiser, position. An
                interrupted run resumes from its own `last.ckpt`.
            weights_only: see Lightning; checkpoints with code in them are never loaded.
        """
        started = time.monotonic()
        # With max_steps, Lightning treats every checkpoint as one from the middle of an epoch. A
        # run that resumes from the end of an epoch would skip the next one.
        self.fit_loop._iteration_based_training = lambda: False  # type: ignore[method-assign] # meant
        if not any(isinstance(callback, UnshiftedWeights) for callback in self.callbacks):
            # First, so that a refused run leaves no files.
            self.callbacks.insert(0, UnshiftedWeights(self.detection))
        with session(self, model, ckpt_path) as (path, _):
            super().fit(
                model,
                train_dataloaders=train_dataloaders,
                val_dataloaders=val_dataloaders,
                datamodule=datamodule,
                ckpt_path=path,
                weights_only=True if path else weights_only,
            )
        calibrate = isinstance(model, AdversarialTraining) and model.adversary.calibrate
        if (self.detection.positive is not None or calibrate) and not self.fast_dev_run:
            assert isinstance(model, TaskModule)  # see `check_detector`
            assert isinstance(datamodule, TextDataModule)  # with labels, as a TaskModule needs it
            best = None if self.recorder is None else self.recorder.run.best
            if best is not None and not best.is_file():
                best = None
            if isinstance(model, AdversarialTraining) and calibrate:
                set_temperature(self, model, datamodule, best)
            if self.detection.positive is not None:
                set_threshold(self, model, datamodule, self.detection, best)
        seconds = time.monotonic() - started
        metrics = {}
        for callback in self.checkpoint_callbacks:
            if isinstance(callback, LastCheckpoint):
                seconds = callback.seconds
            score: Tensor | None = getattr(callback, "best_model_score", None)
            monitor: str | None = getattr(callback, "monitor", None)
            if score is not None and monitor is not None:
                metrics[monitor] = float(score)
        self._finish("fit", model, metrics, seconds)

    @override
    def validate(
        self,
        model: pl.LightningModule | None = None,
        dataloaders: Any = None,
        ckpt_path: str | Path | None = None,
        verbose: bool = False,
        datamodule: pl.LightningDataModule | None = None,
        weights_only: bool | None = None,
    ) -> Any:
        """Measure a checkpoint on the validation split.

        Args:
            model: the model.
            dataloaders: see Lightning.
            ckpt_path: checkpoint to measure; `best.ckpt` of `--run` if not given.
            verbose: see Lightning.
            datamodule: the corpus.
            weights_only: see Lightning; checkpoints with code in them are never loaded.
        """
        self._measure(ckpt_path)
        return self._evaluate(
            "validate",
            "val/",
            model,
            ckpt_path,
            lambda path: super(RobustTrainer, self).validate(
                model, dataloaders, path, verbose, datamodule, True if path else weights_only
            ),
        )

    @override
    def test(
        self,
        model: pl.LightningModule | None = None,
        dataloaders: Any = None,
        ckpt_path: str | Path | None = None,
        verbose: bool = False,
        datamodule: pl.LightningDataModule | None = None,
        weights_only: bool | None = None,
        *,
        pgd: PGDSettings = PGDSettings(),
        sweep: list[float] = [],  # noqa: B006 (LightningCLI shows it; it is only read)
        baseline: bool = True,
    ) -> Any:
        """Measure a checkpoint on the test split, without attack and under l2-PGD.

        Args:
            model: the model.
            dataloaders: see Lightning.
            ckpt_path: checkpoint to measure; `best.ckpt` of `--run` if not given.
            verbose: see Lightning.
            datamodule: the corpus.
            weights_only: see Lightning; checkpoints with code in them are never loaded.
            pgd: settings of the attack.
            sweep: further radii of it, for a curve of the accuracy: as long as an attack for each.
            baseline: also train a bag of words, for seconds, and test it; in a run directory only.
        """
        check_sweep(sweep)
        attack = pgd_of(pgd, task_of(datamodule)) if isinstance(model, TaskModule) else None
        if isinstance(model, TaskModule):
            model.test_attack, model.former_attacks = attack, {}
            model.test_sweep = () if attack is None else sweep
        subject = pgd_subject(attack, sweep)
        figures = {} if attack is None else {"test/pgd_epsilon": pgd.epsilon}

        def test(path: str | None) -> Any:
            slices = [SliceFigures()] if getattr(datamodule, "slices", ()) else []
            with self._preceded_by(*slices):
                outcome = super(RobustTrainer, self).test(
                    model, dataloaders, path, verbose, datamodule, True if path else weights_only
                )
            bag = self._bag_figures(datamodule) if baseline else {}
            further = [*(callback.figures for callback in slices), bag]
            figures.update({f"test/{name}": n for some in further for name, n in some.items()})
            return outcome

        self._measure(ckpt_path)
        with self._recording_attack(attack, subject, ckpt_path, datamodule) as writer:
            outcome = self._evaluate(
                "test",
                "test/",
                model,
                ckpt_path,
                test,
                settings=figures,
                subject=subject,
                records=None if writer is None else writer.records,
            )
        self._file_test(model, attack)
        return outcome

    def _file_test(self, model: pl.LightningModule | None, attack: PGD | None) -> None:
        """File the detection curve of a test; without an attack, set aside the records of one."""
        if self._files is None or not self.is_global_zero:
            return
        if isinstance(model, TaskModule):
            self._files.write_detection(model.test_scores.curve())
        if attack is None:
            # The figures of the attack were just replaced.
            self._files.set_aside("pgd", only="pgd.jsonl")

    def _bag_figures(self, corpus: object) -> dict[str, float]:
        """Train and test a bag of words, once and for a run; a part of the split has none."""
        whole = LIMITS["test"] not in self._circumstances("test")
        kept = self._files is not None and self.is_global_zero
        return bag_figures(corpus) if whole and kept else {}

    def _recording_attack(
        self,
        attack: PGD | None,
        subject: Mapping[str, Any],
        ckpt_path: str | Path | None,
        corpus: object,
    ) -> AbstractContextManager[AttackWriter | None]:
        """Write the records of an attack of a test inside the block, if a run keeps them."""
        if attack is None or self._files is None:
            return nullcontext()

        def identity() -> Subject:
            rows = {} if self.recorder is None else self.recorder.rows
            return {**self._identity(ckpt_path, "test", corpus), **subject, "rows": rows}

        return self._recording(partial(AttackWriter, subject=identity), "pgd.jsonl")

    @property
    def _files(self) -> RunDirectory | None:
        """The run directory of an evaluation's outcome; None if it is not kept."""
        return None if self.recorder is None or self.fast_dev_run else self.recorder.files

    @property
    def _stamp(self) -> dict[str, str]:
        """The part of each record that identifies the weights."""
        weights = None if self.recorder is None else self.recorder.weights
        return {} if weights is None else {"checkpoint": weights.stamp}

    def _measure(self, checkpoint: str | Path | None) -> None:
        """Begin an evaluation of a checkpoint.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        if self.recorder is not None and not self.fast_dev_run:
            self.recorder.measure(checkpoint)

    @contextmanager
    def _recording(self, make: Callable[[Records], W], name: str) -> Iterator[W]:
        """Let a callback write a file of the run inside the block; without a run, no file."""
        path = None if self._files is None else self._files.path / name
        with closing(Records(path, stamp=self._stamp)) as records:
            writer = make(records)
            with self._preceded_by(writer):
                yield writer
                # Only now: a kill before this line loses nothing.
                records.discard()

    @contextmanager
    def _preceded_by(self, *callbacks: pl.Callback) -> Iterator[None]:
        """Call these callbacks before all others inside the block."""
        self.callbacks[:0] = callbacks
        try:
            yield
        finally:
            for callback in callbacks:
                self.callbacks.remove(callback)

    def _best(self) -> Path | None:
        """Return the checkpoint to test after a fit; None for the present weights."""
        if self.recorder is None or self.fast_dev_run:
            return None
        # Without validation the best checkpoint is missing; checkpoints may also be disabled.
        chosen = self.recorder.run.chosen
        return chosen if chosen.is_file() else None

    def _evaluate(
        self,
        stage: Stage,
        prefix: str,
        model: pl.LightningModule | None,
        ckpt_path: str | Path | None,
        evaluate: Callable[[str | None], T],
        *,
        settings: dict[str, float] | None = None,
        subject: dict[str, Any] | None = None,
        records: Records | None = None,
    ) -> T:
        started = time.monotonic()
        circumstances = self._circumstances(stage)
        if self._files is not None and self.recorder is not None:
            self.recorder.show(self.loggers, stage)
        with session(self, model, ckpt_path) as (path, _):
            outcome = evaluate(path)
        metrics = numbers(self.callback_metrics, prefix) | (settings or {})
        full_subject = {**(subject or {}), **circumstances}
        seconds = time.monotonic() - started + (0.0 if records is None else records.seconds)
        self._finish(stage, model, metrics, seconds, full_subject)
        return outcome

    def _identity(
        self, ckpt_path: str | Path | None, stage: Stage, corpus: object
    ) -> dict[str, Any]:
        """Return what the records of a stage depend on, but for its own settings and its rows."""
        weights = None if self.recorder is None else self.recorder.weights
        if weights is None and ckpt_path and Path(ckpt_path).exists():
            weights = weights_of(Path(ckpt_path))
        limit = self._circumstances(stage).get(LIMITS[stage])
        return {
            # Weights in memory have no identity: what an earlier start has measured is not theirs.
            "checkpoint": f"none, start {time.time_ns()}"
            if weights is None
            else weights.checkpoint,
            "precision": self.precision,
            # Not its revision, which a commit changes: the same command has to resume.
            "program": version(),
            # A limit counts batches: their size decides which samples are measured.
            "part": None if limit is None else [limit, getattr(corpus, "eval_batch_size", None)],
        }

    def _circumstances(self, stage: Stage) -> dict[str, Any]:
        """Return precision and limits of an evaluation.

        Raises:
            ValueError: the limit is 0.
        """
        name = LIMITS[stage]
        limit = getattr(self, name)
        if limit == 0:
            msg = f"got --trainer.{name} 0, expected it to be left out"
            raise ValueError(msg)
        # Lightning reads the limit 1 as one batch, and 1.0 as all batches.
        part = {} if isinstance(limit, float) and limit == 1 else {name: limit}
        return {"precision": str(self.precision), **part}

    def _finish(
        self,
        stage: Stage,
        model: pl.LightningModule | None,
        metrics: dict[str, float],
        seconds: float,
        subject: dict[str, Any] | None = None,
    ) -> None:
        if self.recorder is not None and model is not None and not self.fast_dev_run:
            self.recorder.finish(
                self, model, stage=stage, metrics=metrics, seconds=seconds, subject=subject
            )


def check_sweep(sweep: Sequence[float]) -> None:
    """Raise a ValueError unless all radii are positive, and each comes once."""
    if len(set(sweep)) < len(sweep) or not all(0 < radius < math.inf for radius in sweep):
        msg = f"got --sweep {list(sweep)}, expected different radii above 0, such as [0.25,0.5,1]"
        raise ValueError(msg)


def pgd_of(settings: PGDSettings, task: str) -> PGD | None:
    """Return the attack of a test; None without one."""
    # A perturbation of a text changes its class; the other tasks have none.
    return PGD(**asdict(settings)) if settings.epsilon > 0 and task == "classification" else None


def pgd_subject(attack: PGD | None, sweep: Sequence[float]) -> dict[str, Any]:
    """Return the entries of the subject of a test about its attack and the further radii."""
    # Outcomes without a sweep keep the subject that older versions have stored.
    further = {"sweep": list(sweep)} if sweep and attack is not None else {}
    return {"pgd": None if attack is None else asdict(attack), **further}


def evaluation_subject(stage: str, settings: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the entries of the subject of an evaluation that its command line names.

    `stage` is the name of its figures, `task` that of the corpus.
    """
    if stage == "test":
        attack = pgd_of(PGDSettings(**settings["pgd"]), task)
        return pgd_subject(attack, settings.get("sweep") or ())
    return {"radii": list(settings["radii"])} if stage.startswith("certify") else {}


def task_of(datamodule: object) -> str:
    """Return the task of a corpus."""
    return datamodule.task if isinstance(datamodule, TextDataModule) else "classification"
