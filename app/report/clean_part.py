"""Confusion matrix and calibration of a run, from its records of clean texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.report.clean_figures import (
    Bin,
    ClassFigures,
    calibration_error,
    class_figures,
    confidence,
    confusion,
    macro_f1,
    reliability,
)
from app.report.report_pictures import Picture, reliability_picture
from measure.evidence import Evidence, StageRecords
from run_files.sample_records import Record


@dataclass(frozen=True)
class CleanFigures:
    """The predictions of clean texts in `file`: `[C, C]` counts, figures of classes, mean F1."""

    file: str
    names: Sequence[str]
    counts: Sequence[Sequence[int]]
    figures: Sequence[ClassFigures]
    macro: float | None


@dataclass(frozen=True)
class Calibration:
    """The confidence of `count` predictions; `error` is the expected calibration error."""

    bins: Sequence[Bin]
    error: float
    count: int
    picture: Picture


def labelled_records(evidence: Evidence) -> StageRecords | None:
    """Return the records with the class and the prediction of each text of the test split."""
    if not evidence.classifies:
        return None
    # All these files are about the same texts; the first complete one counts.
    proven = (evidence.certificates, *evidence.in_words.values())
    sources = (evidence.pgd, evidence.predictions, *proven)
    return next((s for s in sources if s is not None and is_labelled(s.records)), None)


def is_labelled(records: Sequence[Record]) -> bool:
    """Return True if each sample has a single class and a single prediction."""
    # A tagging has lists of labels, a regression floats.
    return all(
        type(record.get("label")) is int and type(record.get("prediction")) is int
        for record in records
    )


def count_clean(evidence: Evidence) -> CleanFigures | None:
    """Return the confusion matrix and the figures of each class; None without records."""
    measured = labelled_records(evidence)
    if measured is None:
        return None
    labels = [record["label"] for record in measured.records]
    predictions = [record["prediction"] for record in measured.records]
    # [C, C]: labels in rows, predictions in columns.
    counts = confusion(labels, predictions, len(evidence.class_names))
    names = [evidence.class_name(i) for i in range(len(counts))]
    figures = class_figures(counts)
    return CleanFigures(measured.file, names, counts, figures, macro_f1(figures))


def calibrate(evidence: Evidence, number: int) -> Calibration | None:
    """Return the calibration of the predictions of a run; None without probabilities."""
    measured = evidence.predictions
    if measured is None or not evidence.classifies or not is_labelled(measured.records):
        return None
    if not all(has_logits(record) for record in measured.records):
        return None
    confidences = [confidence(record["logits"]) for record in measured.records]
    bins = reliability(confidences, [r["label"] == r["prediction"] for r in measured.records])
    error = calibration_error(bins)
    if error is None:
        return None
    picture = reliability_picture(f"reliability-{number}", bins, error)
    return Calibration(bins, error, len(confidences), picture)


def has_logits(record: Record) -> bool:
    """Return True if a record has finite logits of several classes."""
    logits: Any = record.get("logits")
    return (
        isinstance(logits, list)
        and len(logits) > 1
        and all(isinstance(logit, int | float) and math.isfinite(logit) for logit in logits)
    )
