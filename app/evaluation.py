"""Evaluations that are not steps of a module: certificates and predictions, one line per sample."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch import Tensor
from typing_extensions import override

from app import atomic
from app.distributed import gather
from certify import Certificates, Certifier
from layers.attention.bounds import Bound
from lit_modules import Classifier
from text import Batch


class CertifyEvaluator(pl.LightningModule):
    """Stands in for a classifier in a test run, and certifies each sample.

    Logs, with the prefix `certify_paper/` for the paper's bound, which guarantees nothing:
    `certify/radius` (mean over all samples), `certify/radius_correct` (the same with 0 where
    the prediction is wrong) and `certify/accuracy@R` (share of the samples that are predicted
    rightly with a radius of more than R, and for R = 0 all those predicted rightly).

    Args:
        classifier: what is certified.
        bound: which Lipschitz bound, see `certify.Certifier`.
        radii: the radii R.
        path: where the certificates are written as JSON lines; nowhere if None.
    """

    def __init__(
        self, classifier: Classifier, *, bound: Bound, radii: list[float], path: Path | None
    ) -> None:
        super().__init__()
        self.classifier = classifier
        self.bound = bound
        self.radii = radii
        self.path = path
        self._certifier: Certifier | None = None
        self._records: list[dict[str, Any]] = []

    @property
    def stage(self) -> Literal["certify", "certify_paper"]:
        """What the outcome is filed under: a formula that is no theorem never as `certify`."""
        return "certify" if self.bound == "sound" else "certify_paper"

    def configure_model(self) -> None:
        """Let the classifier make its weights."""
        self.classifier.configure_model()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Let the classifier read its checkpoint."""
        self.classifier.on_load_checkpoint(checkpoint)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load the classifier's weights: checkpoints are its own."""
        return self.classifier.load_state_dict(state_dict, strict=strict, assign=assign)

    def on_test_start(self) -> None:
        """Measure the weights once."""
        self._records = []
        self._certifier = Certifier(self.classifier, self.bound)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Certify one batch."""
        assert self._certifier is not None  # on_test_start made it
        if batch.labels is None:
            msg = "got samples without labels, expected labelled ones: `predict` needs none"
            raise ValueError(msg)
        self._records.extend(certificate_records(self._certifier(batch), batch, batch.labels))

    def on_test_epoch_end(self) -> None:
        """Bring the certificates together, write and average them."""
        records = gather(self.trainer, self._records)
        records.sort(key=lambda record: int(record["sample_id"]))
        if self.path is not None and self.trainer.is_global_zero:
            atomic.write_lines(self.path, records)
        # Every process has all records, so there is nothing left to average over processes.
        means = summary(records, self.radii)
        named = {f"{self.stage}/{name}": value for name, value in means.items()}
        self.log_dict(named, rank_zero_only=False, sync_dist=False)
        self._certifier, self._records = None, []


def certificate_records(
    certificates: Certificates, batch: Batch, labels: Tensor
) -> list[dict[str, Any]]:
    """One JSON-able record per sample."""
    columns = zip(
        batch.sample_ids.tolist(),
        labels.tolist(),
        certificates.prediction.tolist(),
        certificates.margin.tolist(),
        certificates.lipschitz.tolist(),
        certificates.radius.tolist(),
        strict=True,
    )
    return [
        {
            "sample_id": sample_id,
            "label": label,
            "prediction": prediction,
            "margin": margin,
            # JSON has no infinity: null where there is no finite bound.
            "lipschitz": lipschitz if math.isfinite(lipschitz) else None,
            "radius": radius,
            "bound": certificates.bound,
        }
        for sample_id, label, prediction, margin, lipschitz, radius in columns
    ]


def summary(records: list[dict[str, Any]], radii: list[float]) -> dict[str, float]:
    """Mean radii and certified accuracies, by the last part of their metrics' names."""
    if not records:
        msg = "got no samples to certify, expected at least one"
        raise ValueError(msg)
    right = [record["prediction"] == record["label"] for record in records]
    radius = [float(record["radius"]) for record in records]
    correct = [r if hit else 0.0 for r, hit in zip(radius, right, strict=True)]
    count = len(records)
    certified = {
        f"accuracy@{limit:g}": sum(
            hit and (r > limit or limit == 0) for r, hit in zip(radius, right, strict=True)
        )
        / count
        for limit in radii
    }
    return {
        "radius": sum(radius) / count,
        "radius_correct": sum(correct) / count,
        **certified,
    }


class PredictionWriter(pl.Callback):
    """Writes what a predict run returns as JSON lines, sorted by sample.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: list[dict[str, Any]] = []

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
        """Keep the predictions of one batch."""
        names = pl_module.class_names if isinstance(pl_module, Classifier) else None
        columns = zip(
            torch.as_tensor(outputs["sample_ids"]).tolist(),
            outputs["prediction"].tolist(),
            outputs["logits"].double().tolist(),
            strict=True,
        )
        self._records.extend(
            {
                "sample_id": sample_id,
                "prediction": prediction,
                "class": names[prediction] if names else str(prediction),
                "logits": logits,
            }
            for sample_id, prediction, logits in columns
        )

    def on_predict_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Bring the predictions together and write them."""
        records = gather(trainer, self._records)
        records.sort(key=lambda record: int(record["sample_id"]))
        if trainer.is_global_zero:
            atomic.write_lines(self.path, records)
        self._records = []
