"""Keeps the run directory and TensorBoard up to date while the trainer works."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor

from app import results
from app.distributed import dry
from app.results import Results
from app.run_directory import RunDirectory
from app.session import digest
from lit_modules import Classifier


def final(module: pl.LightningModule) -> dict[str, str]:
    """The metrics of TensorBoard's HParams tab, and what they are called elsewhere.

    Args:
        module: joined to its corpus, whose task has a figure of its own.
    """
    if not isinstance(module, Classifier):
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

    Args:
        run: the run.
        begin: step from which on it writes. What is there of later steps was written before the
            program was killed, and TensorBoard leaves it out.
    """

    def __init__(self, run: RunDirectory, *, begin: int = 0) -> None:
        super().__init__(
            run.path, name="", version="", default_hp_metric=False, purge_step=begin or None
        )

    @property
    def experiment(self) -> Any:
        """What opens its file when something is written.

        Lightning asks for it before it looks at data and model, which may be refused.
        """
        return _Unopened(self) if self._experiment is None else super().experiment

    def open(self) -> Any:
        """The writer itself, with its file."""
        return super().experiment

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write values; Lightning would take a file that cannot be opened for a wrong value."""
        self.open()
        super().log_metrics(metrics, step)

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
        reopened: whether a finished run is trained further.
        checkpoint: what is evaluated, if it is no training.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: dict[str, Any],
        *,
        seed: int,
        reopened: bool,
        checkpoint: Path | None = None,
    ) -> None:
        self.run = run
        self.config = config
        self.seed = seed
        self.reopened = reopened
        self.checkpoint = checkpoint

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin the run, or go on with it."""
        if not trainer.is_global_zero or dry(trainer):
            return
        self.run.lock()
        if self.reopened:
            results.reopen(self.run.results_path)
        self.run.write_config(self.config)
        for logger in trainer.loggers:
            logger.log_hyperparams(hyper_parameters(self.config), *_undecided(logger, pl_module))
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_text("config", f"```yaml\n{yaml.safe_dump(self.config)}```")

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let others train the run."""
        self.run.unlock()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Let others train the run."""
        self.run.unlock()

    def keep_config(self, trainer: pl.Trainer) -> None:
        """Store the settings of a run that is begun by an evaluation, once that has succeeded."""
        if trainer.is_global_zero and not self.run.begun:
            if self.checkpoint is not None:
                self.run.write_source(digest(self.checkpoint), self.checkpoint)
            self.run.write_config(self.config)

    def finish(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        *,
        stage: str,
        metrics: Mapping[str, float],
        seconds: float,
    ) -> Results | None:
        """Record the end of a stage; returns all results on the first process.

        Args:
            trainer: that has done it.
            module: whose stage it was; that of the trainer may be a wrapper around it.
            stage: its name.
            metrics: by name.
            seconds: that it took.
        """
        if not trainer.is_global_zero:
            return None
        self.keep_config(trainer)
        corpus = getattr(trainer.datamodule, "corpus", "unknown")  # type: ignore[attr-defined] # set by a connector
        identity = {
            "run": self.run.name,
            "method": type(module).__name__,
            "corpus": corpus,
            "seed": self.seed,
        }
        if isinstance(module, Classifier) and module.no_certificate is not None:
            identity["no_certificate"] = module.no_certificate
        merged = results.merge(
            self.run.results_path, stage, identity=identity, metrics=dict(metrics), seconds=seconds
        )
        known = final(module)
        found = {name: metrics[source] for name, source in known.items() if source in metrics}
        for logger in trainer.loggers:
            if found:
                logger.log_metrics(found, trainer.global_step)
                logger.save()
        return merged


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
