"""Writes predictions and outcomes of PGD, one line per sample."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from typing_extensions import override

from lit_modules import TaskModule
from run_files.sample_records import Record, Records
from text import IGNORED, Batch


def words_of(batch: Batch) -> Tensor:
    """Return `[B, N]` bool: the tokens that carry the tags of words; without labels all tokens."""
    return batch.mask if batch.labels is None else batch.labels != IGNORED


class RecordWriter(pl.Callback):
    """Records a line for each sample of an evaluation.

    Args:
        records: file to which they go.
    """

    def __init__(self, records: Records) -> None:
        self.records = records

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the file."""
        self.records.begin(trainer)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Merge the records of all processes."""
        # Before the means are computed: their collective operations have a shorter timeout.
        self.records.merge()

    on_predict_start, on_predict_end = on_test_start, on_test_epoch_end


class PredictionWriter(RecordWriter):
    """Records the predictions of a predict run, with the label of a sample if it has one."""

    @override
    def on_predict_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Record the predictions of one batch."""
        names = pl_module.class_names if isinstance(pl_module, TaskModule) else None
        sample_ids = torch.as_tensor(outputs["sample_ids"]).tolist()
        predictions, logits = outputs["prediction"], outputs["logits"].double()
        gold = getattr(batch, "labels", None)
        labels = [None] * len(sample_ids) if gold is None else list(gold)
        if isinstance(pl_module, TaskModule) and pl_module.task.name == "tagging":
            # A word is tagged at its first token: its other tokens have no prediction.
            words = words_of(batch)  # [B, N]
            predictions = [row[where] for row, where in zip(predictions, words, strict=True)]
            logits = [row[where] for row, where in zip(logits, words, strict=True)]
            if gold is not None:
                labels = [row[where] for row, where in zip(gold, words, strict=True)]
        rows = zip(sample_ids, labels, predictions, logits, strict=True)
        for sample_id, label, answer, row in rows:
            record: Record = {"sample_id": sample_id}
            if label is not None:
                record["label"] = label.tolist()
            record["prediction"] = answer.tolist()
            if names:
                listed = [names[i] for i in answer.view(-1).tolist()]
                record["class"] = listed if answer.dim() else listed[0]
            self.records.add([record | {"logits": row.tolist()}])


class AttackWriter(RecordWriter):
    """Records the outcome of PGD for each sample of a test run."""

    @override
    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Record the attacks on one batch."""
        columns = ("sample_ids", "labels", "prediction", "pgd_prediction", "survived")
        names = ("sample_id", "label", *columns[2:])
        rows = zip(*(outputs[column].tolist() for column in columns), strict=True)
        self.records.add(dict(zip(names, row, strict=True)) for row in rows)
