"""Keeps the run directory and its loggers up to date while the trainer works."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor

from datamodules import PTBCharacters, TextDataModule
from datamodules.batching.examples import fingerprint
from datamodules.labelled import Split
from lit_modules import TaskModule
from lit_modules.checkpoints.exported import checkpoint_digest
from run_files import results
from run_files.distributed import dry
from run_files.event_files import drop, ending
from run_files.results import Results
from run_files.run_directory import RunDirectory
from run_files.weights import Weights, keep_apart, shelf, warn_unfinished, weights_of
from training.metrics_file import MetricsFile
from training.resume import with_additions
from training.trackers import keep_names


def headline_metrics(module: pl.LightningModule) -> dict[str, str]:
    """Return the metrics of TensorBoard's HParams tab, each with its name in `results.json`."""
    if not isinstance(module, TaskModule):
        return {"hp/loss": "test/loss"}
    headline = module.task.headline
    names = {f"hp/{headline}": f"test/{headline}"}
    if module.task.name == "classification":
        if module.no_certificate is None:
            names["hp/radius_correct"] = "certify/radius_correct"
        names["hp/pgd_accuracy"] = "test/pgd_accuracy"
    return names


class RunLogger(TensorBoardLogger):
    """Writes TensorBoard's event files into the run directory, so that TensorBoard shows its name.

    A fit writes its curves. Each evaluation writes its figures into its own file (`measure`), which
    moves away with the other files when the run gets new weights.

    Args:
        run: the run.
        begin: first step of a fit. TensorBoard drops later steps, which were written before the
            program was killed. None without a fit.
    """

    def __init__(self, run: RunDirectory, *, begin: int | None = None) -> None:
        super().__init__(run.path, name="", version="", default_hp_metric=False, purge_step=begin)
        self.begin = begin or 0
        self._measured_step: int | None = None
        self._evaluation: tuple[RunDirectory, str] | None = None
        self._written: dict[str, tuple[int | None, float]] = {}

    @property
    def experiment(self) -> Any:
        """TensorBoard's writer, which opens its file on the first write."""
        # Lightning reads this before it checks data and model, and an error must leave no file.
        return _Unopened(self) if self._experiment is None else super().experiment

    def open(self) -> Any:
        """Return the writer, with an open file."""
        if self._experiment is None and self._evaluation is not None:
            drop(*self._evaluation)
        return super().experiment

    @rank_zero_only
    def measure(self, files: RunDirectory, stage: str, step: int) -> None:
        """Begin an evaluation, whose figures replace earlier ones.

        `files` is the directory of the outcome; TensorBoard shows the figures at the step of the
        weights.
        """
        if self._experiment is not None:
            self._experiment.close()
        self._experiment, self._kwargs = None, {"filename_suffix": ending(stage)}
        self._root_dir, self._measured_step, self._written = str(files.path), step, {}
        self._evaluation = (files, stage)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write the values that are new.

        Lightning logs the epoch, and each step of a checkpoint, more than once.
        """
        if self._measured_step is not None:
            # Figures of `validate` would mix with the curves of the fit; `results.json` has them.
            step, curves = self._measured_step, ("val/", "epoch")
            metrics = {
                name: value for name, value in metrics.items() if not name.startswith(curves)
            }
        new = {
            name: value
            for name, value in metrics.items()
            if self._written.get(name) != (step, value)
        }
        if new:
            # Lightning reports any error of `log_metrics`, also of the disk, as a wrong value.
            self.open()
            super().log_metrics(new, step)
            self._written |= {name: (step, value) for name, value in new.items()}

    def finalize(self, status: str) -> None:
        """Flush, and leave the file open: a test after a fit writes to it as well."""
        del status
        self.save()

    def save(self) -> None:
        """Flush; the run has `config.yaml` instead of Lightning's `hparams.yaml`."""
        if self._experiment is not None:
            self._experiment.flush()


class _Unopened:
    """Replaces TensorBoard's writer until one of its methods is used."""

    def __init__(self, logger: RunLogger) -> None:
        self._logger = logger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger.open(), name)


class Recorder(pl.Callback):
    """Writes `config.yaml`, `results.json` and the HParams of a run.

    Args:
        run: the run.
        config: the settings, as plain scalars, lists and mappings.
        seed: the seed of the run.
        reopened: step from which a finished run is trained further; None for others.
        checkpoint: the evaluated checkpoint; None for a training.
        start: the checkpoint of another run that a training begins with, if any.

    Attributes:
        files: folder of the outcome of the evaluation: the run, or its folder for these weights.
        weights: the evaluated weights; None in a training.
        rows: digest of the evaluated rows, by their split; on the first process.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: dict[str, Any],
        *,
        seed: int,
        reopened: int | None = None,
        checkpoint: Path | None = None,
        start: Path | None = None,
    ) -> None:
        self.run = run
        self.config = config
        self.seed = seed
        self.reopened = reopened
        self.checkpoint, self.start = checkpoint, start
        self.files = run
        self.weights: Weights | None = None
        self.rows: dict[str, str] = {}

    @property
    def training_seed(self) -> int:
        """Seed of the run; an evaluation may draw with another."""
        return int(self.run.config()["seed_everything"]) if self.run.begun else self.seed

    def measure(self, checkpoint: str | Path | None) -> None:
        """Begin an evaluation: identify the weights, and choose the folder of the outcome.

        Without a checkpoint, they are the present weights of the model.
        """
        self.files, self.weights, self.rows = self.run, None, {}
        if checkpoint is not None:
            self.weights = weights_of(Path(checkpoint))
            self.files = shelf(self.run, self.weights)
            warn_unfinished(Path(checkpoint))

    def show(self, loggers: Iterable[Logger], stage: str) -> None:
        """Begin an evaluation in TensorBoard; see `RunLogger.measure`."""
        step = 0 if self.weights is None else self.weights.step
        for logger in loggers:
            if isinstance(logger, RunLogger):
                logger.measure(self.files, stage, step)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Move away figures of other weights or rows than those evaluated now."""
        # Lightning calls this after the corpus is set up: its rows are known.
        if stage == "fit" or dry(trainer):
            return
        split: Split = "validation" if stage == "validate" else "test"
        if trainer.is_global_zero:
            self.measure_rows(trainer.datamodule, split)  # type: ignore[attr-defined] # set by a connector

    def measure_rows(self, corpus: object, split: Split) -> None:
        """Move away figures of other weights or rows than those of a split of a corpus."""
        self.rows = _rows(corpus, split)
        if not self.run.begun:
            return
        if self.weights is not None:
            keep_apart(self.files, self.weights)
        label = "rows" if self.weights is None else f"{self.weights.label}-rows"
        if results.foreign_subjects(self.files.results(), rows=self.rows):
            self.files.set_aside(label)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin or resume the run."""
        if not trainer.is_global_zero or dry(trainer):
            return
        # A second training of this run is an error, until the lock is released.
        self.run.lock()
        if self.reopened is not None:
            results.reopen(self.run.results_path, self.reopened)
        # Before the settings: a run that has these knows its beginning.
        if self.start is not None:
            self.run.write_start(checkpoint_digest(self.start), self.start)
        elif not self.run.begun:
            self.run.start_path.unlink(missing_ok=True)
        self.run.write_config(self.config)
        for logger in trainer.loggers:
            begin = logger.begin if isinstance(logger, RunLogger) else 0
            if begin == 0:  # a resumed run has written them before
                undecided = _undecided(logger, pl_module)
                logger.log_hyperparams(hyper_parameters(self.config), *undecided)
            if isinstance(logger, MetricsFile):
                logger.open()
            if isinstance(logger, TensorBoardLogger):
                text = f"```yaml\n{yaml.safe_dump(self.config)}```"
                logger.experiment.add_text("config", text, begin)
        keep_names(self.run, trainer.loggers)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Release the lock of the run."""
        self.run.unlock()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Release the lock of the run."""
        self.run.unlock()

    def keep_config(self) -> None:
        """Store the settings of a run that began with an evaluation, once that has succeeded.

        A run without a test file gets the one of the evaluation.
        """
        if not self.run.begun:
            if self.checkpoint is not None:
                self.run.write_source(checkpoint_digest(self.checkpoint), self.checkpoint)
            self.run.write_config(self.config)
            return
        stored = self.run.config()
        if (completed := with_additions(stored, self.config)) != stored:
            self.run.write_config(completed)

    def finish(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        *,
        stage: str,
        metrics: Mapping[str, float],
        seconds: float,
        subject: Mapping[str, Any] | None = None,
        corpus: str | None = None,
    ) -> Results | None:
        """Record the end of a stage; returns all results on the first process.

        The trainer's module may be a wrapper around the evaluated or trained one. `subject` has
        settings that the metrics depend on, besides those of the run; `corpus` is by default that
        of the trainer.
        """
        if not trainer.is_global_zero:
            return None
        self.keep_config()
        files, full_subject = self.run, dict(subject or {})
        if stage != "fit":
            files, full_subject = self.files, self.circumstances(full_subject)
        merged = results.merge(
            files.results_path,
            stage,
            identity=self.identity(trainer, module, corpus),
            metrics=dict(metrics),
            seconds=seconds,
            subject=full_subject,
        )
        self._look_again()
        sources = headline_metrics(module)
        headlines = {name: metrics[source] for name, source in sources.items() if source in metrics}
        for logger in trainer.loggers:
            if headlines:
                logger.log_metrics(headlines, trainer.global_step)
                logger.save()
        keep_names(self.run, trainer.loggers)
        return merged

    def identity(
        self, trainer: pl.Trainer, module: pl.LightningModule, corpus: str | None = None
    ) -> dict[str, Any]:
        """Return the entries of `results.json` about the run: `run`, `method`, `corpus`, ..."""
        identity = {
            "run": self.run.name,
            "method": type(module).__name__,
            "corpus": corpus or getattr(trainer.datamodule, "corpus", "unknown"),  # type: ignore[attr-defined] # set by a connector
            "seed": self.training_seed,
        }
        if isinstance(module, TaskModule) and module.no_certificate is not None:
            identity["no_certificate"] = module.no_certificate
        if isinstance(module, TaskModule) and module.positive is not None:
            identity["positive"] = module.positive
        if isinstance(module, TaskModule) and module.detector is not None:
            identity["detector"] = asdict(module.detector)
        return identity

    def circumstances(self, subject: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of `results.json` about an evaluation: weights, rows, settings."""
        weights = {} if self.weights is None else self.weights.about()
        return {**weights, "rows": self.rows, "seed": self.seed, **subject}

    def _look_again(self) -> None:
        """Move the outcome away if a training has replaced the weights during the evaluation."""
        if self.weights is None or self.files.path != self.run.path:
            return
        self.files = shelf(self.run, self.weights)
        if self.files.path != self.run.path:
            self.run.set_aside(self.weights.label)


def _rows(corpus: object, split: Split) -> dict[str, str]:
    """Return the digest of the evaluated rows, by their split."""
    if not isinstance(corpus, TextDataModule | PTBCharacters):
        return {}
    examples = corpus.examples(split)
    # A test uses only rows with a label. Where no row has one, all are predicted.
    labelled = [example for example in examples if example.label is not None]
    return {split: fingerprint(labelled or examples)}


def _undecided(logger: Any, module: pl.LightningModule) -> tuple[dict[str, float], ...]:
    """Return the metrics of the HParams tab with NaN values, for TensorBoard only."""
    if not isinstance(logger, TensorBoardLogger):
        return ()
    # TensorBoard pairs settings with metrics only if both are named in one call.
    return (dict.fromkeys(headline_metrics(module), math.nan),)


def numbers(metrics: Mapping[str, Tensor], prefix: str) -> dict[str, float]:
    """Return the metrics whose names begin with `prefix`."""
    return {name: float(value) for name, value in metrics.items() if name.startswith(prefix)}


def hyper_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of model, data and seed as a flat dictionary for the HParams tab."""
    flat: dict[str, Any] = {"seed": config["seed_everything"]}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                add(name if key in {"class_path", "init_args"} else f"{name}/{key}", inner)
        else:
            flat[name] = value if isinstance(value, bool | int | float | str) else str(value)

    for part in ("model", "data"):
        add(part, config[part])
    return flat
