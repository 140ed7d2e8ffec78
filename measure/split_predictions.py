"""Predict the test split of a corpus: `predict`."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from measure.measurement import Record
from measure.split_batches import BatchMeasurement
from text import IGNORED, Batch


class SplitPredictions(BatchMeasurement):
    """Predicts each sample, with its label if it has one."""

    stage, file = "predict", "predictions.jsonl"

    def measure_batch(self, batch: Batch) -> Sequence[Record]:
        """Return the predictions of a batch; of a tagged text those of its words."""
        outputs = self._model.predict_step(batch, 0)
        columns: list[Any] = [outputs["prediction"], outputs["logits"].double()]
        if batch.labels is not None:
            columns.append(batch.labels)
        if self._model.task.name == "tagging":
            # A word is tagged at its first token: its other tokens have no prediction.
            words = batch.mask if batch.labels is None else batch.labels != IGNORED  # [B, N]
            columns = [[row[at] for row, at in zip(c, words, strict=True)] for c in columns]
        records = []
        for sample_id, prediction, logits, *label in zip(
            batch.sample_ids.tolist(), *columns, strict=True
        ):
            record: Record = {"sample_id": sample_id}
            if label:
                record["label"] = label[0].tolist()
            record["prediction"] = prediction.tolist()
            if self.class_names:
                names = [self.class_names[i] for i in prediction.view(-1).tolist()]
                record["class"] = names if prediction.dim() else names[0]
            records.append(record | {"logits": logits.tolist()})
        return records

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the share of the most frequent class: near 1, the model has collapsed."""
        counts = Counter(
            record.get("class") for record in records if type(record.get("class")) is str
        )
        return {"largest_class": max(counts.values()) / len(records)} if counts else {}
