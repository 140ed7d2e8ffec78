"""File outcomes: in a run directory, or in a folder for a model from elsewhere."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from run_files import results
from run_files.run_directory import RunDirectory
from text.subjects import Subject

if TYPE_CHECKING:
    from pytorch_lightning import LightningModule, Trainer

    from lit_modules import TaskModule
    from training.recorder import Recorder


class FolderArchive(NamedTuple):
    """A run directory, or the folder of a model from elsewhere.

    Attributes:
        files: the folder.
        identity: `run`, `method`, `corpus` and `seed`, as `results.json` has them.
    """

    files: RunDirectory
    identity: Mapping[str, Any]

    def begin(self, stage: str) -> None:
        """Begin the figures of a stage; a folder has no services to tell."""

    def admit(self, subject: Subject) -> dict[str, Any]:
        """Return the subject in `results.json`, for figures that are filed later."""
        # A folder has one model and one data set: nothing to add.
        return dict(subject)

    def file(
        self, stage: str, metrics: Mapping[str, float], seconds: float, subject: Subject
    ) -> None:
        """Add the figures of a stage to `results.json`."""
        results.merge(
            self.files.results_path,
            stage,
            identity=dict(self.identity),
            metrics=dict(metrics),
            seconds=seconds,
            subject=subject,
        )


def run_identity(run: RunDirectory, module: "TaskModule", corpus: str) -> dict[str, Any]:
    """Return the entries of `results.json` that identify a run."""
    seed = int(run.config().get("seed_everything", 0))
    identity = {"run": run.name, "method": module.method, "corpus": corpus, "seed": seed}
    if module.no_certificate is not None:
        identity["no_certificate"] = module.no_certificate
    return identity


class RunArchive(NamedTuple):
    """The run of a measured model, whose trainer has loggers to report to."""

    recorder: "Recorder"
    trainer: "Trainer"
    module: "LightningModule"
    corpus: str

    @property
    def files(self) -> RunDirectory:
        """The run, or its folder for these weights if they are not the chosen ones."""
        return self.recorder.files

    def begin(self, stage: str) -> None:
        """Let TensorBoard show the following figures under the name of a stage."""
        self.recorder.show(self.trainer.loggers, stage)

    def admit(self, subject: Subject) -> dict[str, Any]:
        """Store the settings of a run that begins here; return weights, rows and `subject`."""
        self.recorder.keep_config()
        return self.recorder.circumstances(subject)

    def file(
        self, stage: str, metrics: Mapping[str, float], seconds: float, subject: Subject
    ) -> None:
        """Add the figures of a stage to `results.json`, and tell the services."""
        for logger in self.trainer.loggers:
            logger.log_metrics(dict(metrics), self.trainer.global_step)
            logger.save()
        # The recorder adds weights and rows to the subject, under the lock of `results.json`.
        self.recorder.finish(
            self.trainer,
            self.module,
            stage=stage,
            metrics=metrics,
            seconds=seconds,
            subject=subject,
            corpus=self.corpus,
        )
