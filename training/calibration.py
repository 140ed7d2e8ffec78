"""Divides the output layer by a temperature at the end of a fit, and stores it in best weights."""

import sys
from pathlib import Path

import pytorch_lightning as pl
import torch

from datamodules import TextDataModule
from lit_modules import AdversarialTraining
from lit_modules.adversaries.temperature import best_temperature, output_weights
from training.launch import launch
from training.threshold import store_weights, validation_logits


def set_temperature(
    trainer: pl.Trainer, model: AdversarialTraining, corpus: TextDataModule, checkpoint: Path | None
) -> float:
    """Choose the temperature on the validation split, and divide the output layer by it.

    A second call changes nothing: the best temperature of a calibrated model is 1. A detector,
    whose threshold is in units of its logits, is left as it is. All processes call this together,
    after the fit. The model gets the weights of the checkpoint, if there is one, calibrated. Return
    the temperature.
    """

    def choose() -> float:
        if model.detector is not None:
            return 1.0
        temperature = best_temperature(*validation_logits(trainer, model, corpus))
        weights = output_weights(model.classifier)
        with torch.no_grad():
            for weight in weights:
                weight.div_(temperature)
        if checkpoint is not None and trainer.is_global_zero:
            store_weights(checkpoint, model, weights, trainer)
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            print(f"calibrated: logits divided by {temperature:.3g}", file=sys.stderr)
        return temperature

    return launch(trainer, model, corpus, checkpoint, choose, split="validation")
