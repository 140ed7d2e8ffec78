"""The trainer: Lightning's, with attacks in its tests, certificates, and a run directory."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytorch_lightning as pl
from torch import Tensor
from typing_extensions import override

from app.checkpoint import LastCheckpoint
from app.evaluation import CertifyEvaluator, PredictionWriter
from app.record import Recorder, numbers
from app.results import Stage
from attacks import PGD
from layers.attention.bounds import Bound
from lit_modules import Classifier, check_fits, check_method, read_checkpoint

log = logging.getLogger(__name__)

RADII = (0.0, 0.25, 0.5, 1.0, 2.0)
T = TypeVar("T")


class RobustTrainer(pl.Trainer):
    """Fits, tests under attack, certifies, and keeps the outcome in a run directory.

    Attributes:
        recorder: keeps the run directory; set by the command line, None for a trainer in Python.
        stages: what `train` still has to do.
    """

    # Set by Lightning, which does not declare them.
    callbacks: list[pl.Callback]
    fast_dev_run: bool | int

    recorder: Recorder | None = None
    stages: Sequence[Stage] = ("fit", "test", "certify")

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
        """Train a model, or go on with the training of a run.

        Args:
            model: the model.
            train_dataloaders: see Lightning.
            val_dataloaders: see Lightning.
            datamodule: the corpus.
            ckpt_path: begin from the state in this checkpoint: weights, optimiser, position. A run
                that was interrupted goes on from its `last.ckpt` without being told.
            weights_only: see Lightning; checkpoints with code in them are never loaded.
        """
        started = time.monotonic()
        with self._restored(model, ckpt_path) as path:
            super().fit(
                model,
                train_dataloaders=train_dataloaders,
                val_dataloaders=val_dataloaders,
                datamodule=datamodule,
                ckpt_path=path,
                weights_only=True if path else weights_only,
            )
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
        pgd_epsilon: float = 1.0,
        pgd_steps: int = 20,
        pgd_step_size: float | None = None,
        pgd_restarts: int = 1,
    ) -> Any:
        """Measure a checkpoint on the test split, as it is and under l2-PGD.

        Args:
            model: the model.
            dataloaders: see Lightning.
            ckpt_path: checkpoint to measure; `best.ckpt` of `--run` if not given.
            verbose: see Lightning.
            datamodule: the corpus.
            weights_only: see Lightning; checkpoints with code in them are never loaded.
            pgd_epsilon: radius of the l2 ball around each embedded text in which the attack looks
                for a misclassified point; 0 for no attack.
            pgd_steps: gradient steps of the attack.
            pgd_step_size: length of a step; 2.5 pgd_epsilon / pgd_steps if not given.
            pgd_restarts: how often the attack is begun, first at the text and then at random
                points.
        """
        if isinstance(model, Classifier):
            attack = PGD(
                epsilon=pgd_epsilon,
                steps=pgd_steps,
                step_size=pgd_step_size,
                restarts=pgd_restarts,
            )
            model.test_attack = attack if pgd_epsilon > 0 else None
        return self._evaluate(
            "test",
            "test/",
            model,
            ckpt_path,
            lambda path: super(RobustTrainer, self).test(
                model, dataloaders, path, verbose, datamodule, True if path else weights_only
            ),
            settings={"test/pgd_epsilon": pgd_epsilon} if pgd_epsilon > 0 else {},
        )

    def certify(
        self,
        model: Classifier,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: str | Path | None = None,
        *,
        bound: Bound = "sound",
        radii: list[float] = list(RADII),  # noqa: B006 (LightningCLI shows it; it is only read)
    ) -> Any:
        """Certify a checkpoint on the test split: the radius of one prediction around each text.

        Args:
            model: the model.
            datamodule: the corpus.
            ckpt_path: checkpoint to certify; `best.ckpt` of `--run` if not given.
            bound: formula of the Lipschitz constant: a proven one, or `paper`, as printed in the
                papers, for reproduction only; its numbers are kept apart, as `certify_paper/...`.
            radii: the R of the metrics `certify/accuracy@R`, the share of the texts that are
                classified rightly with a radius of more than R.
        """
        self._require_full_precision()
        keep = self.recorder is not None and not self.fast_dev_run
        path = self.recorder.run.certificates(bound) if keep and self.recorder else None
        evaluator = CertifyEvaluator(model, bound=bound, radii=radii, path=path)
        return self._evaluate(
            evaluator.stage,
            f"{evaluator.stage}/",
            model,
            ckpt_path,
            lambda found: super(RobustTrainer, self).test(
                evaluator, None, found, False, datamodule, True if found else None
            ),
        )

    @override
    def predict(
        self,
        model: pl.LightningModule | None = None,
        dataloaders: Any = None,
        datamodule: pl.LightningDataModule | None = None,
        return_predictions: bool | None = None,
        ckpt_path: str | Path | None = None,
        weights_only: bool | None = None,
    ) -> Any:
        """Predict the class of each text of the test split.

        With a run directory, the predictions are written to its `predictions.jsonl`.

        Args:
            model: the model.
            dataloaders: see Lightning.
            datamodule: the corpus.
            return_predictions: see Lightning.
            ckpt_path: checkpoint to predict with; `best.ckpt` of `--run` if not given.
            weights_only: see Lightning; checkpoints with code in them are never loaded.
        """
        if self.recorder is not None and not self.fast_dev_run:
            self.callbacks.insert(0, PredictionWriter(self.recorder.run.predictions))
            return_predictions = False
            self.recorder.keep_config(self)
        with self._restored(model, ckpt_path) as path:
            safe = True if path else weights_only
            return super().predict(model, dataloaders, datamodule, return_predictions, path, safe)

    def train(
        self,
        model: Classifier,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: str | Path | None = None,
        *,
        pgd_epsilon: float = 1.0,
        pgd_steps: int = 20,
        pgd_step_size: float | None = None,
        pgd_restarts: int = 1,
        radii: list[float] = list(RADII),  # noqa: B006 (LightningCLI shows it; it is only read)
    ) -> None:
        """Fit a model, then test and certify its best checkpoint.

        Stages that a run has been through already are left out.

        Args:
            model: the model.
            datamodule: the corpus.
            ckpt_path: begin from the state in this checkpoint: weights, optimiser, position. A run
                that was interrupted goes on from its `last.ckpt` without being told.
            pgd_epsilon: radius of the l2 ball around each embedded text in which the attack looks
                for a misclassified point; 0 for no attack.
            pgd_steps: gradient steps of the attack.
            pgd_step_size: length of a step; 2.5 pgd_epsilon / pgd_steps if not given.
            pgd_restarts: how often the attack is begun, first at the text and then at random
                points.
            radii: the R of the metrics `certify/accuracy@R`, the share of the texts that are
                classified rightly with a radius of more than R.
        """
        stages = tuple(self.stages)
        if "certify" in stages:
            self._require_full_precision()
        if "fit" in stages:
            self.fit(model, datamodule=datamodule, ckpt_path=ckpt_path)
        best = self._best()
        if "test" in stages:
            self.test(
                model,
                datamodule=datamodule,
                ckpt_path=best,
                pgd_epsilon=pgd_epsilon,
                pgd_steps=pgd_steps,
                pgd_step_size=pgd_step_size,
                pgd_restarts=pgd_restarts,
            )
        if "certify" in stages:
            self.certify(model, datamodule, best, radii=radii)

    def _best(self) -> Path | None:
        """The checkpoint that is tested after a fit; None for the weights as they are."""
        if self.recorder is None or self.fast_dev_run:
            return None
        run = self.recorder.run
        # Without validation there is no best, and without checkpoints there is none at all.
        return next((path for path in (run.best, run.last) if path.is_file()), None)

    def _evaluate(
        self,
        stage: Stage,
        prefix: str,
        model: pl.LightningModule | None,
        ckpt_path: str | Path | None,
        evaluate: Callable[[str | None], T],
        *,
        settings: dict[str, float] | None = None,
    ) -> T:
        started = time.monotonic()
        with self._restored(model, ckpt_path) as path:
            outcome = evaluate(path)
        metrics = numbers(self.callback_metrics, prefix) | (settings or {})
        self._finish(stage, model, metrics, time.monotonic() - started)
        return outcome

    def _finish(
        self,
        stage: Stage,
        model: pl.LightningModule | None,
        metrics: dict[str, float],
        seconds: float,
    ) -> None:
        if self.recorder is not None and model is not None and not self.fast_dev_run:
            method = type(model).__name__
            self.recorder.finish(self, stage, method=method, metrics=metrics, seconds=seconds)

    @staticmethod
    @contextmanager
    def _restored(
        model: pl.LightningModule | None, ckpt_path: str | Path | None
    ) -> Iterator[str | None]:
        """Read a checkpoint before Lightning does, which would stumble over a wrong one.

        The model gets the vocabulary and the classes from it, which it needs to make its weights.

        Raises:
            CheckpointError: the checkpoint is missing, damaged, or of another model.
        """
        if ckpt_path is None or not isinstance(model, Classifier):
            yield None if ckpt_path is None else str(ckpt_path)
            return
        checkpoint = read_checkpoint(ckpt_path)
        check_method(checkpoint, model, ckpt_path)
        model.restore_text(checkpoint)
        try:
            yield str(ckpt_path)
        except RuntimeError as error:
            if "loading state_dict" in str(error):
                check_fits(checkpoint, model, ckpt_path)
            raise

    def _require_full_precision(self) -> None:
        if self.precision not in ("32-true", "64-true"):
            msg = (
                f"got --trainer.precision {self.precision}, expected 32-true or 64-true: rounding "
                "in reduced precision is larger than a certificate allows; `fit` and `test` with "
                "it, then `certify --run NAME` without"
            )
            raise ValueError(msg)
