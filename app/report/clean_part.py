"""Confusion matrix, calibration and curves of a detector, from the clean texts of a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.report.page_parts import format_number
from app.report.report_pictures import (
    Panel,
    PanelLine,
    Picture,
    panels_picture,
    reliability_picture,
)
from measure.evidence import Evidence
from measure.labelled_predictions import (
    Bin,
    ClassFigures,
    calibration_error,
    class_figures,
    confidence,
    confusion,
    macro_f1,
    reliability,
)
from run_files.sample_records import Record
from text.bounded_files import DataError, kind_of, read_json
from text.json_shapes import check_shape


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


def is_labelled(records: Sequence[Record]) -> bool:
    """Return True if each sample has a single class and a single prediction."""
    # A tagging has lists of labels, a regression floats.
    return all(
        type(record.get("label")) is int and type(record.get("prediction")) is int
        for record in records
    )


def count_clean(evidence: Evidence) -> CleanFigures | None:
    """Return the confusion matrix and the figures of each class; None without records."""
    # All these files are about the same texts of the test split; the first complete one counts.
    proven = (evidence.certificates, *evidence.in_words.values())
    sources = (evidence.pgd, evidence.predictions, *proven)
    measured = next((s for s in sources if s is not None and is_labelled(s.records)), None)
    if measured is None or not evidence.classifies:
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
    if not all(map(has_logits, measured.records)):
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


def detection_picture(evidence: Evidence, number: int) -> Picture | None:
    """Draw the curves that `test` has stored of a detector; None without them.

    Raises:
        DataError: the file has another content.
    """
    path = evidence.run.detection
    # Texts of one kind have no ranking; without figures, the curves may be of other weights.
    if kind_of(path) is None or evidence.metrics.get("test/auc") is None:
        return None
    content = read_json(path, "curves of a detector; move it away")
    check_shape(content, dict[str, list[Any]], path)
    points = content.get("points", [])
    if not points or not all(
        isinstance(point, list) and len(point) == 3 and all(type(v) in (int, float) for v in point)
        for point in points
    ):
        msg = f"got {path} without points, expected false alarms, recall and precision of some"
        raise DataError(msg)
    alarms, recall, precision = zip(*points, strict=True)
    figures = [evidence.metrics.get(f"test/{name}") for name in ("false_alarms", "recall")]
    at = [figure for figure in figures if figure is not None]
    threshold = [PanelLine("threshold", at[:1], at[1:], 1)] if len(at) == 2 else []
    area, mean = (
        f"{title} {format_number(evidence.metrics.get(f'test/{name}'))}"
        for title, name in (("AUC", "auc"), ("average", "average_precision"))
    )
    panels = [
        Panel("ROC", [PanelLine(area, alarms, recall, 0), *threshold], "false alarms"),
        # The first point detects nothing: it has no precision.
        Panel("Precision", [PanelLine(mean, recall[1:], precision[1:], 0)], "detected"),
    ]
    alt = f"Detected texts over false alarms, {area}; precision over detected texts, {mean}."
    return panels_picture(f"detection-{number}", panels, alt=alt, top=1.02)
