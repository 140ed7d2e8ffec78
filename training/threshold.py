"""Chooses the threshold of a detector at the end of a fit, and stores it in its best weights."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from datamodules import TextDataModule
from lit_modules import Detection, Detector, TaskModule, read_checkpoint
from lit_modules.shared.detection import choose_threshold, detection_scores, find_positive
from lit_modules.shared.task_module import labels_of
from run_files.distributed import gather_parts
from text.torch_archive import CHECKPOINT_KEY
from training.launch import launch

log = logging.getLogger(__name__)


class UnshiftedWeights(pl.Callback):
    """Trains weights without a threshold, and refuses settings of a detector before training."""

    def __init__(self, detection: Detection) -> None:
        self.detection = detection

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Remove a threshold from the weights of a detector that is trained further.

        Raises:
            ValueError: a detector is asked for, and this model or corpus cannot be one.
        """
        if isinstance(pl_module, TaskModule):
            pl_module.unfold()
        if self.detection.positive is not None:
            check_detector(trainer, pl_module, self.detection.positive)
            return
        default = asdict(Detection())
        for name, value in asdict(self.detection).items():
            if value != default[name]:
                log.warning("detect.%s=%s has no effect with detect.positive=null", name, value)


def check_detector(trainer: pl.Trainer, module: pl.LightningModule, positive: str) -> None:
    """Raise ValueError where a fit with `--detect.positive` can have no threshold."""
    option = f"got --detect.positive {positive}"
    if not isinstance(module, TaskModule) or module.task.name != "classification":
        task = module.task.name if isinstance(module, TaskModule) else "a language model"
        msg = f"{option} for {task}, expected a classification of texts"
        raise ValueError(msg)
    if not trainer.limit_val_batches:
        msg = f"{option} without validation, expected a split on which a threshold is chosen"
        raise ValueError(msg)
    _, names = module.require_text()
    try:
        find_positive(positive, names)
    except ValueError as error:
        msg = str(error).replace("got class", "got --detect.positive")
        raise ValueError(msg) from error
    if module.output_layer is None:
        module.output_bias()  # raises: the method has none


def set_threshold(
    trainer: pl.Trainer,
    model: TaskModule,
    corpus: TextDataModule,
    detection: Detection,
    checkpoint: Path | None,
) -> Detector:
    """Choose the threshold on the validation split, and make the model and its file a detector.

    A checkpoint that is a detector keeps its threshold. All processes call this together, after the
    fit. The model gets the weights of the checkpoint, if there is one, with the threshold.
    `detection` has a positive class.

    Raises:
        ValueError: no text of the class in the validation split, or none of others.
    """

    def choose() -> Detector:
        if model.detector is not None:
            return model.detector
        _, names = model.require_text()
        index = find_positive(detection.positive or "", names)
        logits, labels = validation_logits(trainer, model, corpus)
        scores, positive = detection_scores(logits, index), labels == index
        threshold = choose_threshold(scores, positive, detection)
        negatives = int((~positive).sum())
        detected = scores >= threshold
        detector = Detector(
            positive=names[index],
            threshold=threshold,
            false_alarms=int((detected & ~positive).sum()) / negatives,
            recall=float(detected[positive].double().mean()),
            negatives=negatives,
            positives=len(positive) - negatives,
        )
        model.fold(detector)
        if checkpoint is not None and trainer.is_global_zero:
            store_weights(
                checkpoint, model, [model.output_bias()], trainer, detector=asdict(detector)
            )
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            print(detector.describe(), file=sys.stderr)
        return detector

    return launch(trainer, model, corpus, checkpoint, choose, split="validation")


def validation_logits(
    trainer: pl.Trainer, model: TaskModule, corpus: TextDataModule
) -> tuple[Tensor, Tensor]:
    """Return logits `[n, C]` in float64 and labels `[n]`, the same in every process."""
    rows: dict[int, tuple[list[float], int]] = {}
    for batch in corpus.val_dataloader():
        logits = model.predict_logits(batch.to(model.device)).to(torch.float64)
        values = zip(logits.tolist(), labels_of(batch).tolist(), strict=True)
        # A sample that fills up the last batch of a process is there twice.
        rows |= dict(zip(batch.sample_ids.tolist(), values, strict=True))
    merged = {key: value for part in gather_parts(trainer, rows) for key, value in part.items()}
    values_by_id = [merged[key] for key in sorted(merged)]
    return (
        torch.tensor([logits for logits, _ in values_by_id], dtype=torch.float64),
        torch.tensor([label for _, label in values_by_id]),
    )


def store_weights(
    path: Path,
    model: TaskModule,
    changed: Sequence[nn.Parameter],
    trainer: pl.Trainer,
    **content: Any,
) -> None:
    """Write some weights of a model into a checkpoint of it; other contents stay.

    `content` are further entries of this project's part.
    """
    checkpoint = read_checkpoint(path)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if any(parameter is other for other in changed):
            checkpoint["state_dict"][name] = parameter.detach().cpu().clone()
    checkpoint[CHECKPOINT_KEY] |= content
    trainer.strategy.checkpoint_io.save_checkpoint(checkpoint, path)
