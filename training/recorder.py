"""Keeps the run directory and its loggers up to date while the trainer works."""

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor

from attacks.digests import file_digest
from datamodules import PTBCharacters, TextDataModule
from datamodules.batching.examples import fingerprint
from datamodules.labelled import Split
from lit_modules import TaskModule
from run_files import results
from run_files.distributed import dry
from run_files.event_files import drop, ending
from run_files.results import Results
from run_files.run_directory import RunDirectory
from run_files.weights import Weights, keep_apart, shelf, unfinished, weights_of
from training.metrics_file import MetricsFile
from training.resume import with_additions
from training.trackers import keep_names

log = logging.getLogger(__name__)


def final(module: pl.LightningModule) -> dict[str, str]:
    """The metrics of TensorBoard's HParams tab, and what they are called elsewhere.

    Args:
        module: joined to its corpus, whose task has a figure of its own.
    """
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
    """TensorBoard's event files, straight in the run directory, so that TensorBoard shows its name.

    A fit writes its curves. Each evaluation writes its figures into a file of its own (`measure`),
    so that they can leave with the other files about weights that are no longer the run's.

    Args:
        run: the run.
        begin: step from which on a fit writes. What is there of later steps was written before the
            program was killed, and TensorBoard leaves it out. None where there is no fit.
    """

    def __init__(self, run: RunDirectory, *, begin: int | None = None) -> None:
        super().__init__(run.path, name="", version="", default_hp_metric=False, purge_step=begin)
        self.begin = begin or 0
        self._measured_step: int | None = None
        self._evaluation: tuple[RunDirectory, str] | None = None
        self._written: dict[str, tuple[int | None, float]] = {}

    @property
    def experiment(self) -> Any:
        """TensorBoard's writer, which opens its file on the first write.

        Lightning asks for it before it looks at data and model, which may be refused.
        """
        return _Unopened(self) if self._experiment is None else super().experiment

    def open(self) -> Any:
        """The writer itself, with its file."""
        if self._experiment is None and self._evaluation is not None:
            drop(*self._evaluation)
        return super().experiment

    @rank_zero_only
    def measure(self, files: RunDirectory, stage: str, step: int) -> None:
        """Write from here on the figures of an evaluation, in the place of those it had before.

        Args:
            files: where the outcome is filed.
            stage: of the evaluation.
            step: of the weights that are evaluated; the figures are shown there.
        """
        if self._experiment is not None:
            self._experiment.close()
        self._experiment, self._kwargs = None, {"filename_suffix": ending(stage)}
        self._root_dir, self._measured_step, self._written = str(files.path), step, {}
        self._evaluation = (files, stage)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write values that are not there yet.

        With the same step come, more than once, the epoch, and all of a step that has been saved.
        """
        if self._measured_step is not None:
            # Those of `validate` would stand in the curves of the fit; `results.json` has them.
            step, curves = self._measured_step, ("val/", "epoch")
            metrics = {name: one for name, one in metrics.items() if not name.startswith(curves)}
        new = {name: one for name, one in metrics.items() if self._written.get(name) != (step, one)}
        if new:
            # Lightning would take a file that cannot be opened for a wrong value.
            self.open()
            super().log_metrics(new, step)
            self._written |= {name: (step, one) for name, one in new.items()}

    def finalize(self, status: str) -> None:
        """Flushes; a test after a fit goes on in the same file.

        Args:
            status: see Lightning.
        """
        del status
        self.save()

    def save(self) -> None:
        """Flush; `config.yaml` is there in the place of Lightning's `hparams.yaml`."""
        if self._experiment is not None:
            self._experiment.flush()


class _Unopened:
    """Stands for TensorBoard's writer until one of its methods is asked for.

    Args:
        logger: whose writer it is.
    """

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
        checkpoint: checkpoint that is evaluated, if it is no training.

    Attributes:
        files: folder of the outcome of the evaluation: the run, or its folder for these weights.
        weights: weights that are evaluated; None while a run is trained.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: dict[str, Any],
        *,
        seed: int,
        reopened: int | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        self.run = run
        self.config = config
        self.seed = seed
        self.reopened = reopened
        self.checkpoint = checkpoint
        self.files = run
        self.weights: Weights | None = None
        self._rows: dict[str, str] = {}

    @property
    def training_seed(self) -> int:
        """Seed of the run; an evaluation may draw with another."""
        return int(self.run.config()["seed_everything"]) if self.run.begun else self.seed

    def measure(self, checkpoint: str | Path | None) -> None:
        """Begin an evaluation: identify its weights and rows, and choose the place of its outcome.

        Args:
            checkpoint: what is evaluated; None for the weights as they are.
        """
        self.files, self.weights, self._rows = self.run, None, {}
        if checkpoint is not None:
            self.weights = weights_of(Path(checkpoint))
            self.files = shelf(self.run, self.weights)
            if (said := unfinished(Path(checkpoint))) is not None:
                log.warning("%s", said)

    def show(self, loggers: Iterable[Logger], stage: str) -> None:
        """Let TensorBoard show what follows as figures of an evaluation; see `RunLogger.measure`.

        Args:
            loggers: of the trainer.
            stage: of the evaluation.
        """
        step = 0 if self.weights is None else self.weights.step
        for logger in loggers:
            if isinstance(logger, RunLogger):
                logger.measure(self.files, stage, step)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Move away figures of other weights or rows than those evaluated now.

        Lightning calls this after the corpus is set up.
        """
        if stage == "fit" or dry(trainer):
            return
        split: Split = "validation" if stage == "validate" else "test"
        if trainer.is_global_zero:
            self.measure_rows(trainer.datamodule, split)  # type: ignore[attr-defined] # set by a connector

    def measure_rows(self, corpus: object, split: Split) -> None:
        """Move away figures of other weights or rows than those evaluated now.

        Args:
            corpus: with the rows.
            split: that is evaluated.
        """
        self._rows = _rows(corpus, split)
        if not self.run.begun:
            return
        if self.weights is not None:
            keep_apart(self.files, self.weights)
        label = "rows" if self.weights is None else f"{self.weights.label}-rows"
        for about in results.about_stages(self.files.results()):
            other = about.get("rows", {})
            if any(other.get(split, rows) != rows for split, rows in self._rows.items()):
                self.files.set_aside(label)
                break

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin the run, or go on with it."""
        if not trainer.is_global_zero or dry(trainer):
            return
        self.run.lock()
        if self.reopened is not None:
            results.reopen(self.run.results_path, self.reopened)
        self.run.write_config(self.config)
        for logger in trainer.loggers:
            begin = logger.begin if isinstance(logger, RunLogger) else 0
            if begin == 0:  # else the file of the first sitting has them
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
        """Store the settings of a run that is begun by an evaluation, once that has succeeded.

        A run that had no test file gets the one that it has been evaluated on.
        """
        if not self.run.begun:
            if self.checkpoint is not None:
                self.run.write_source(file_digest(self.checkpoint), self.checkpoint)
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
        about: Mapping[str, Any] | None = None,
        corpus: str | None = None,
    ) -> Results | None:
        """Record the end of a stage; returns all results on the first process.

        Args:
            trainer: that has done it.
            module: whose stage it was; that of the trainer may be a wrapper around it.
            stage: its name.
            metrics: by name.
            seconds: that it took.
            about: settings that the metrics depend on, besides those of the run.
            corpus: name of the corpus; that of the trainer if None.
        """
        if not trainer.is_global_zero:
            return None
        self.keep_config()
        files, whole = self.run, dict(about or {})
        if stage != "fit":
            files, whole = self.files, self.circumstances(whole)
        merged = results.merge(
            files.results_path,
            stage,
            identity=self.identity(trainer, module, corpus),
            metrics=dict(metrics),
            seconds=seconds,
            subject=whole,
        )
        self._look_again()
        known = final(module)
        found = {name: metrics[source] for name, source in known.items() if source in metrics}
        for logger in trainer.loggers:
            if found:
                logger.log_metrics(found, trainer.global_step)
                logger.save()
        keep_names(self.run, trainer.loggers)
        return merged

    def identity(
        self, trainer: pl.Trainer, module: pl.LightningModule, corpus: str | None = None
    ) -> dict[str, Any]:
        """Returns what `results.json` says of the run: `run`, `method`, `corpus`, `seed`, ...

        Args:
            trainer: with the corpus.
            module: whose figures they are.
            corpus: name of the corpus; that of the trainer if None.
        """
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
        return identity

    def circumstances(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what `results.json` says of an evaluation: weights, rows, seed, settings.

        Args:
            about: settings that its metrics depend on.
        """
        known = {} if self.weights is None else self.weights.about()
        return {**known, "rows": self._rows, "seed": self.seed, **about}

    def _look_again(self) -> None:
        """Move the outcome away if a training has replaced the weights in the meantime."""
        if self.weights is None or self.files.path != self.run.path:
            return
        self.files = shelf(self.run, self.weights)
        if self.files.path != self.run.path:
            self.run.set_aside(self.weights.label)


def _rows(corpus: object, split: Split) -> dict[str, str]:
    """Digest of the rows that are evaluated, by their split.

    Of rows with and without label only the former count: all are predicted, but not all tested.
    """
    if not isinstance(corpus, TextDataModule | PTBCharacters):
        return {}
    examples = corpus.examples(split)
    labelled = [example for example in examples if example.label is not None]
    return {split: fingerprint(labelled or examples)}


def _undecided(logger: Any, module: pl.LightningModule) -> tuple[dict[str, float], ...]:
    """TensorBoard shows those metrics beside the settings that are named together with them."""
    if not isinstance(logger, TensorBoardLogger):
        return ()
    return (dict.fromkeys(final(module), math.nan),)


def numbers(metrics: Mapping[str, Tensor], prefix: str) -> dict[str, float]:
    """The metrics whose names begin with `prefix`."""
    return {name: float(value) for name, value in metrics.items() if name.startswith(prefix)}


def hyper_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of model, data and seed, flat, as the HParams tab shows them."""
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
