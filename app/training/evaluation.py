"""Writes certificates, predictions and PGD's outcomes, one line per sample."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch import Tensor
from typing_extensions import override

from app.runs.certified_bounds import STAGE_OF, CertifyStage
from app.runs.sample_records import Record, Records
from app.training.join import require_classification
from app.training.stand_in import StandIn
from certify import Certificates, Certifier
from certify.bound_propagation import WordBalls, WordBallsCertifier, WordRadii
from certify.certificate import CertifiedBound
from datamodules import TextDataModule
from datamodules.batching.examples import fingerprint
from lit_modules import TaskModule
from text import IGNORED, Batch

Certified = Literal[CertifiedBound, "propagation"]
"""A Lipschitz bound, or bound propagation."""


class CertifyEvaluator(StandIn):
    """Certifies each sample in a test run, in place of the classifier.

    Logs, with the prefix `certify_paper/` for the paper's bound, which guarantees nothing, and
    `certify_kim/` for that of Kim et al., `certify_local/` for the local bound:
    `certify/radius` (mean over all samples), `certify/radius_correct` (the same with 0 where
    the prediction is wrong) and `certify/accuracy@R` (share of the samples that are predicted
    rightly with a radius of more than R, and for R = 0 all those predicted rightly). Of samples
    without labels it logs the first only. With the prefix `certify_propagation/`, for a Transformer
    without a Lipschitz constant, these are about one or two words that move, and there are
    `mean_radius` (over the choices of words) and `batch_seconds`.

    Args:
        classifier: classifier that is certified.
        bound: Lipschitz bound, see `certify.Certifier`; propagation has none, see
            `certify.bound_propagation`.
        radii: the radii R.
        records: file to which the certificates go.
        about: the checkpoint and what else the certificates depend on, but for the samples; without
            it, those of a former sitting are not taken up.
        propagation: settings of bound propagation.
    """

    needs_labels = False

    def __init__(
        self,
        classifier: TaskModule,
        *,
        bound: Certified,
        radii: list[float],
        records: Records,
        about: Mapping[str, Any] | None = None,
        propagation: WordBalls = WordBalls(),
    ) -> None:
        super().__init__(classifier)
        self.propagation = propagation
        self.bound = bound
        self.radii = radii
        self.records = records
        self.about = about
        self._done: frozenset[int] = frozenset()
        self._certifier: Certifier | WordBallsCertifier | None = None

    @property
    def stage(self) -> CertifyStage:
        """Name of the outcome; a bound without a proof is never called `certify`."""
        return STAGE_OF[self.bound]

    def on_test_start(self) -> None:
        """Measure the weights once, and find what a former sitting has certified."""
        require_classification(self.classifier.task.name, "certify")
        # First: a network that the bound is not about leaves no file.
        self._certifier = self._measured()
        corpus, about = self.trainer.datamodule, None  # type: ignore[attr-defined] # set by a connector
        if self.about is not None and isinstance(corpus, TextDataModule):
            about = {**self.about, "samples": fingerprint(corpus.examples("test"))}
        self._done = self.records.begin(self.trainer, about=about)

    def _measured(self) -> Certifier | WordBallsCertifier:
        if self.bound == "propagation":
            return WordBallsCertifier(self.classifier, self.propagation)
        certifier = Certifier(self.classifier, self.bound)
        if certifier.network is None:
            msg = (
                f"got {type(self.classifier).__name__}, whose network is no LipschitzClassifier, "
                "expected one, or a class with a sentence in no_certificate"
            )
            raise ValueError(msg)
        return certifier

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Certify one batch."""
        assert self._certifier is not None  # on_test_start made it
        # Only as a whole: a sample is certified in the company it would have had without a break.
        if not self._done.issuperset(batch.sample_ids.tolist()):
            found = self._certifier(batch)
            if isinstance(found, WordRadii):
                self.records.add(word_records(found, batch, self.propagation))
            else:
                self.records.add(certificate_records(found, batch))

    def on_test_epoch_end(self) -> None:
        """Bring the certificates together, write and average them."""
        # Every process has all records, so there is nothing left to average over processes.
        records = self.records.merge()
        means = summary(records, self.radii)
        if self.bound == "propagation":
            for name in ("mean_radius", "batch_seconds"):
                means[name] = sum(record[name] for record in records) / len(records)
        named = {f"{self.stage}/{name}": value for name, value in means.items()}
        self.log_dict(named, rank_zero_only=False, sync_dist=False)
        self._certifier = None


def certificate_records(certificates: Certificates, batch: Batch) -> list[Record]:
    """One JSON-able record per sample; its label is null where it has none."""
    columns = zip(
        batch.sample_ids.tolist(),
        [None] * len(batch) if batch.labels is None else batch.labels.tolist(),
        certificates.prediction.tolist(),
        certificates.margin.tolist(),
        certificates.lipschitz.tolist(),
        certificates.radius.tolist(),
        strict=True,
    )
    reason = {} if certificates.reason is None else {"no_certificate": certificates.reason}
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
            **reason,
        }
        for sample_id, label, prediction, margin, lipschitz, radius in columns
    ]


def word_records(found: WordRadii, batch: Batch, settings: WordBalls) -> list[Record]:
    """One JSON-able record per sample, of bound propagation."""
    labels = [None] * len(batch) if batch.labels is None else batch.labels.tolist()
    columns = (batch.sample_ids, found.prediction, found.radius, found.mean)
    rows = zip(*(column.tolist() for column in columns), labels, strict=True)
    return [
        {
            "sample_id": sample_id,
            "label": label,
            "prediction": prediction,
            "radius": radius,
            "mean_radius": mean,
            "words": settings.words,
            "norm": settings.norm,
            "passes": settings.passes,
            "batch_seconds": found.seconds,
            "bound": "propagation",
        }
        for sample_id, prediction, radius, mean, label in rows
    ]


def check_radii(radii: list[float]) -> None:
    """Raise ValueError unless there are radii, each a finite number of at least 0."""
    if not radii or not all(0 <= radius < math.inf for radius in radii):
        msg = (
            f"got radii={radii}, expected one or more finite numbers of at least 0, for example "
            "--radii '[0, 0.5, 1]'"
        )
        raise ValueError(msg)


def summary(records: list[Record], radii: list[float]) -> dict[str, float]:
    """Mean radii and certified accuracies, by the last part of their metrics' names.

    Without labels there is the mean radius only.
    """
    if not records:
        msg = "got no samples to certify, expected at least one"
        raise ValueError(msg)
    count = len(records)
    radius = [float(record["radius"]) for record in records]
    means = {"radius": sum(radius) / count}
    if any(record["label"] is None for record in records):
        return means
    right = [record["prediction"] == record["label"] for record in records]
    certain = list(zip(radius, right, strict=True))
    means["radius_correct"] = sum(r for r, hit in certain if hit) / count
    for limit in radii:
        above = sum(hit and (r > limit or limit == 0) for r, hit in certain)
        # In as many digits as tell it from all other numbers.
        means[f"accuracy@{str(float(limit)).removesuffix('.0')}"] = above / count
    return means


def words_of(batch: Batch) -> Tensor:
    """`[B, N]` bool: the tokens that carry the tags of words; all where nobody has said which."""
    return batch.mask if batch.labels is None else batch.labels != IGNORED


class RecordWriter(pl.Callback):
    """Records a line for each sample of an evaluation.

    Args:
        records: file to which they go.
    """

    def __init__(self, records: Records) -> None:
        self.records = records

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin."""
        self.records.begin(trainer)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Bring the records together; before the means, whose collectives do not wait as long."""
        self.records.merge()

    on_predict_start, on_predict_end = on_test_start, on_test_epoch_end


class PredictionWriter(RecordWriter):
    """Records what a predict run returns, with the label of a sample if it has one."""

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
            words = words_of(batch)
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
