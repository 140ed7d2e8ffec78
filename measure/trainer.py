"""The trainer of the command line: it also attacks, certifies, predicts and generates."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pytorch_lightning as pl
from typing_extensions import override

from attacks import Outcome, PGDSettings
from certify.bound_propagation import WordBalls
from datamodules import TextDataModule
from lit_modules import CharacterLM, Generation, TaskModule, TextModule
from measure.archive import RunArchive
from measure.attack_run import attack
from measure.attack_settings import AttackSettings
from measure.radii import Certified, Radii, check_radii
from measure.runner import run
from measure.split_batches import BatchMeasurement, MeasuredSplit
from measure.split_predictions import SplitPredictions
from run_files.certified_bounds import STAGE_OF
from run_files.results import Stage
from text.subjects import Subject
from training.generated_texts import Numbers, TextWriter
from training.launch import launch
from training.model_checks import require_classification, require_classifier
from training.trainer import LIMITS, RobustTrainer, task_of

log = logging.getLogger(__name__)

RADII = (0.0, 0.25, 0.5, 1.0, 2.0)


class MeasuringTrainer(RobustTrainer):
    """Fits, tests, attacks, certifies and predicts.

    Attributes:
        stages: the stages that `train` still has to run.
        report: the table of `attack`.
    """

    stages: Sequence[Stage] = ("fit", "test", "certify")
    report: str | None = None

    def certify(
        self,
        model: TaskModule,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: str | Path | None = None,
        *,
        bound: Certified = "sound",
        radii: list[float] = list(RADII),  # noqa: B006 (LightningCLI shows it; it is only read)
        propagation: WordBalls = WordBalls(),
    ) -> Any:
        """Certify a checkpoint on the test split: around each text a radius of constant prediction.

        The texts need no labels. For a method without certificate, the reason is recorded.

        Args:
            model: the model.
            datamodule: the corpus.
            ckpt_path: checkpoint to certify; `best.ckpt` of `--run` if not given.
            bound: formula of the Lipschitz constant: `sound` is proven; `paper` is the papers'
                formula, for reproduction only: its metrics are named `certify_paper/...`; `kim`,
                for tied L2 attention, is proven, too: Theorem 3.2 of Kim et al. with its constant
                corrected; its metrics are named `certify_kim/...`; `local` is proven, too, and
                never less than `sound`: it follows the last feed-forward map around each text;
                `certify_local/...`; `propagation`, for an ordinary Transformer, is about one or
                two words: `certify_propagation/...`.
            radii: the R of the metrics `certify/accuracy@R`, the share of the texts that are
                classified correctly with a radius of more than R.
            propagation: settings of bound propagation.
        """
        check_radii(radii)
        require_classifier(model, "certify")
        _warn_of_unused(propagation, bound)
        settings: dict[str, Any] = {"bound": bound}
        if bound == "propagation":
            settings |= {"propagation": asdict(propagation)}

        def make(split: MeasuredSplit) -> Radii | None:
            require_classification(model.task.name, "certify")
            # Only now: AdversarialTraining may get its classifier from the checkpoint.
            if model.no_certificate is not None and bound != "propagation":
                log.info("nothing is certified: %s", model.no_certificate)
                return None
            self._require_full_precision()
            return Radii(model, split, bound=bound, radii=radii, propagation=propagation)

        return self._measure_split(
            STAGE_OF[bound],
            model,
            datamodule,
            ckpt_path,
            make,
            settings=settings,
            evaluation={"bound": bound, "radii": radii},
        )

    def _measure_split(
        self,
        stage: Stage,
        model: TaskModule,
        corpus: pl.LightningDataModule | None,
        ckpt_path: str | Path | None,
        make: Callable[[MeasuredSplit], BatchMeasurement | None],
        *,
        settings: Subject = MappingProxyType({}),
        evaluation: Subject = MappingProxyType({}),
    ) -> list[dict[str, float]]:
        """Measure the test split in all processes; return the figures, if there are any.

        `make` makes the measurement once the model has its weights; None: nothing is measured.
        Besides the settings of the trainer, the records depend on `settings`, the figures on
        `evaluation`.
        """
        if not isinstance(corpus, TextDataModule):
            msg = f"got {type(corpus).__name__}, expected a corpus of texts to {stage}"
            raise ValueError(msg)
        self._measure(ckpt_path)
        started = time.monotonic()
        archive = None
        if self.recorder is not None and self._files is not None:
            archive = RunArchive(self.recorder, self, model, corpus.corpus)
            archive.begin(stage)
        split = MeasuredSplit(
            corpus=corpus,
            limit=getattr(self, LIMITS[stage]),
            settings={**self._identity(ckpt_path, stage, corpus), **settings},
            evaluation={**evaluation, **self._circumstances(stage)},
            stamp=self._stamp,
            bar=self.is_global_zero and self.progress_bar_callback is not None,
        )

        def work() -> list[dict[str, float]]:
            measurement = make(split)
            if measurement is None:
                if archive is not None:
                    archive.file(stage, {}, time.monotonic() - started, split.evaluation)
                return []
            if archive is not None and self.is_global_zero:
                archive.recorder.measure_rows(corpus, "test")
            figures = measurement.figures(run(measurement, archive, team=self).records)
            return [{f"{stage}/{name}": value for name, value in figures.items()}]

        read: Literal["predict", "test"] = "predict" if stage == "predict" else "test"
        return launch(self, model, corpus, ckpt_path, work, split=read, needs_labels=False)

    def attack(
        self,
        model: TaskModule,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: str | Path | None = None,
        *,
        settings: AttackSettings | None = None,
    ) -> dict[str, Outcome]:
        """Attack a checkpoint by changing words of texts: TextFooler and others (docs/attacks.md).

        Args:
            model: the model.
            datamodule: the corpus.
            ckpt_path: checkpoint to attack; `best.ckpt` of `--run` if not given.
            settings: the attacks, their samples and their limits.
        """
        require_classifier(model, "attack")
        self._measure(ckpt_path)
        settings = settings or AttackSettings()
        attacks = attack(self, model, datamodule, ckpt_path, settings, recorder=self.recorder)
        self.report = attacks.report
        return attacks.outcomes

    @override
    def predict(
        self,
        model: pl.LightningModule | None = None,
        dataloaders: Any = None,
        datamodule: pl.LightningDataModule | None = None,
        return_predictions: bool | None = None,
        ckpt_path: str | Path | None = None,
        weights_only: bool | None = None,
        *,
        generation: Generation = Generation(),
    ) -> Any:
        """Predict the class of each text of the test split; a language model writes texts.

        With a run directory, either is written to its `predictions.jsonl`.

        Args:
            model: the model.
            dataloaders: see Lightning.
            datamodule: the corpus.
            return_predictions: see Lightning.
            ckpt_path: checkpoint to predict with; `best.ckpt` of `--run` if not given.
            weights_only: see Lightning; checkpoints with code in them are never loaded.
            generation: texts that a language model writes; not used by a classifier.
        """
        # A language model has no classes to predict.
        if isinstance(model, CharacterLM):
            return self._write(model, datamodule, ckpt_path, generation)
        if isinstance(model, TextModule):
            require_classifier(model, "predict")
        if self._files is not None and isinstance(model, TaskModule):
            make = partial(SplitPredictions, model)
            return self._measure_split("predict", model, datamodule, ckpt_path, make)
        self._measure(ckpt_path)
        return self._evaluate(
            "predict",
            "predict/",
            model,
            ckpt_path,
            lambda path: super(MeasuringTrainer, self).predict(
                model,
                dataloaders,
                datamodule,
                return_predictions,
                path,
                True if path else weights_only,
            ),
        )

    def _write(
        self,
        model: CharacterLM,
        datamodule: pl.LightningDataModule | None,
        ckpt_path: str | Path | None,
        settings: Generation,
    ) -> list[str]:
        """Let a language model generate texts."""
        model.generation = settings
        numbers = Numbers(getattr(datamodule, "corpus", "unknown"), settings.number)
        self._measure(ckpt_path)
        with self._recording(TextWriter, "predictions.jsonl") as writer:
            self._evaluate(
                "predict",
                "predict/",
                model,
                ckpt_path,
                lambda checkpoint: super(MeasuringTrainer, self).predict(
                    model, None, numbers, False, checkpoint, True if checkpoint else None
                ),
                subject={"generation": asdict(settings)},
            )
        self.report = writer.report
        return writer.texts

    def train(
        self,
        model: TextModule,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: str | Path | None = None,
        *,
        pgd: PGDSettings = PGDSettings(),
        radii: list[float] = list(RADII),  # noqa: B006 (LightningCLI shows it; it is only read)
        baseline: bool = True,
    ) -> None:
        """Fit a model, then test and certify its best checkpoint (an encoder: fit and test).

        Stages that the run has finished are left out.

        Args:
            model: the model.
            datamodule: the corpus.
            ckpt_path: start from the state in this checkpoint: weights, optimiser, position. An
                interrupted run resumes from its own `last.ckpt`.
            pgd: settings of the attack.
            radii: the R of the metrics `certify/accuracy@R`, the share of the texts that are
                classified correctly with a radius of more than R.
            baseline: also train a bag of words, for seconds, and test it.
        """
        check_radii(radii)
        certified = isinstance(model, TaskModule) and task_of(datamodule) == "classification"
        stages = tuple(s for s in self.stages if s != "certify" or certified)
        if self.limit_test_batches == 0:
            stages = tuple(s for s in stages if s == "fit")
        # An error of a later stage must not wait for the fit, which may take days.
        if "certify" in stages and isinstance(model, TaskModule) and model.no_certificate is None:
            self._require_full_precision()
        if isinstance(datamodule, TextDataModule):
            # An unreadable test split must raise before the fit.
            datamodule.read_ahead = "test" in stages or "certify" in stages
        if "fit" in stages:
            self.fit(model, datamodule=datamodule, ckpt_path=ckpt_path)
        best = self._best()
        if "test" in stages:
            self.test(model, datamodule=datamodule, ckpt_path=best, pgd=pgd, baseline=baseline)
        if "certify" in stages and isinstance(model, TaskModule):
            self.certify(model, datamodule, best, radii=radii)

    def _require_full_precision(self) -> None:
        if self.precision not in ("32-true", "64-true"):
            msg = (
                f"got --trainer.precision {self.precision}, expected 32-true or 64-true: rounding "
                "in reduced precision is larger than a certificate allows; `fit` and `test` with "
                "it, then `certify --run NAME` without"
            )
            raise ValueError(msg)


def _warn_of_unused(propagation: WordBalls, bound: Certified) -> None:
    """Warn of settings of bound propagation that another bound does not have."""
    usual = asdict(WordBalls())
    for name, value in asdict(propagation).items():
        if bound != "propagation" and value != usual[name]:
            log.warning("propagation.%s=%s has no effect with bound=%s", name, value, bound)
