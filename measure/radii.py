"""Certify the radii of a test split: `certify`."""

import math
from collections.abc import Sequence
from typing import Literal

from certify import Certificates, Certifier
from certify.bound_propagation import WordBalls, WordBallsCertifier, WordRadii
from certify.certificate import CertifiedBound
from lit_modules import TaskModule
from measure.measurement import Record
from measure.split_batches import BatchMeasurement, MeasuredSplit
from run_files.certified_bounds import FILE_OF, STAGE_OF, CertifyStage
from text import Batch

RADII_RULE = "one or more finite numbers of at least 0, for example --radii '[0, 0.5, 1]'"
Certified = Literal[CertifiedBound, "propagation"]
"""A Lipschitz bound, or bound propagation."""


class Radii(BatchMeasurement):
    """Certifies a radius around each text of a test split.

    Figures, with the prefix of the stage: `radius` (mean over all samples), `radius_correct` (the
    same with 0 for a wrong prediction) and `accuracy@R` (share of samples with a correct prediction
    and a radius above R; for R = 0, the accuracy). Without labels, only `radius`.

    The stage is `certify`; `certify_paper` for the paper's bound, which guarantees nothing;
    `certify_kim` for the bound of Kim et al.; `certify_local` for the local bound.
    `certify_propagation`, for a Transformer without a Lipschitz constant, is about one or two words
    that move; it adds `mean_radius` (over the choices of words) and `batch_seconds`.

    Args:
        classifier: the classifier with its weights, on its device.
        split: the test split.
        bound: Lipschitz bound, see `certify.Certifier`; propagation has none, see
            `certify.bound_propagation`.
        radii: the radii R.
        propagation: settings of bound propagation.

    Raises:
        ValueError: the network does not have the bound.
    """

    def __init__(
        self,
        classifier: TaskModule,
        split: MeasuredSplit,
        *,
        bound: Certified,
        radii: list[float],
        propagation: WordBalls = WordBalls(),
    ) -> None:
        super().__init__(classifier, split)
        self._radii, self._propagation = radii, propagation
        self._certifier: Certifier | WordBallsCertifier
        if bound == "propagation":
            self._certifier = WordBallsCertifier(classifier, propagation)
        else:
            self._certifier = Certifier(classifier, bound)
            # Certificates of a radius need the Lipschitz constant of the full network.
            if self._certifier.network is None:
                msg = (
                    f"got {type(classifier).__name__}, whose network is no LipschitzClassifier, "
                    "expected one, or a class with a sentence in no_certificate"
                )
                raise ValueError(msg)
        self.stage: CertifyStage = STAGE_OF[bound]
        self.file = FILE_OF[self.stage]

    def measure_batch(self, batch: Batch) -> Sequence[Record]:
        """Return the certificates of a batch."""
        outcome = self._certifier(batch)
        if isinstance(outcome, WordRadii):
            return word_records(outcome, batch, self._propagation)
        return certificate_records(outcome, batch)

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return mean radii and certified accuracies."""
        means = summary(records, self._radii)
        if self.stage == "certify_propagation":
            for name in ("mean_radius", "batch_seconds"):
                means[name] = sum(record[name] for record in records) / len(records)
        return means


def certificate_records(certificates: Certificates, batch: Batch) -> list[Record]:
    """Return one JSON-able record per sample; a missing label is null."""
    columns = zip(
        batch.sample_ids.tolist(),
        [None] * len(batch) if batch.labels is None else batch.labels.tolist(),
        certificates.prediction.tolist(),
        certificates.margin.tolist(),
        certificates.lipschitz.tolist(),
        certificates.radius.tolist(),
        batch.lengths.tolist(),
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
            "tokens": tokens,
            **reason,
        }
        for sample_id, label, prediction, margin, lipschitz, radius, tokens in columns
    ]


def word_records(radii: WordRadii, batch: Batch, settings: WordBalls) -> list[Record]:
    """Return one JSON-able record per sample, for bound propagation."""
    labels = [None] * len(batch) if batch.labels is None else batch.labels.tolist()
    columns = (batch.sample_ids, radii.prediction, radii.radius, radii.mean, batch.lengths)
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
            "batch_seconds": radii.seconds,
            "bound": "propagation",
            "tokens": tokens,
        }
        for sample_id, prediction, radius, mean, tokens, label in rows
    ]


def check_radii(radii: list[float]) -> None:
    """Raise ValueError unless there are radii, each a finite number of at least 0."""
    if not radii or not all(0 <= radius < math.inf for radius in radii):
        msg = f"got radii={radii}, expected {RADII_RULE}"
        raise ValueError(msg)


def summary(records: Sequence[Record], radii: list[float]) -> dict[str, float]:
    """Return mean radii and certified accuracies, by the last part of their metrics' names."""
    if not records:
        msg = "got no samples to certify, expected at least one"
        raise ValueError(msg)
    count = len(records)
    radius = [float(record["radius"]) for record in records]
    means = {"radius": sum(radius) / count}
    if any(record["label"] is None for record in records):
        return means  # neither correct nor wrong
    right = [record["prediction"] == record["label"] for record in records]
    certain = list(zip(radius, right, strict=True))
    means["radius_correct"] = sum(r for r, hit in certain if hit) / count
    for limit in radii:
        above = sum(hit and (r > limit or limit == 0) for r, hit in certain)
        # repr has just enough digits to distinguish the number from all others.
        means[f"accuracy@{str(float(limit)).removesuffix('.0')}"] = above / count
    return means
