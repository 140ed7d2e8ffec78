"""Curves of a training, from its `metrics.csv`."""

import math
from collections.abc import Mapping, Sequence

from app.report.report_pictures import Panel, PanelLine, Picture, panels_picture
from measure.evidence import Evidence
from run_files.run_directory import RunDirectory
from text.bounded_files import read_csv

_PANELS = {
    "loss": "loss",
    "accuracy": "accuracy",
    "radius_correct": "certified radius, 0 where wrong",
    "macro_f1": "F1, mean of the classes",
    "f1": "F1",
    "spearman": "Spearman's correlation",
    "bits_per_character": "bits per character",
}
"""Titles of the drawn metrics, in their order."""
_PARTS = {"train": "training batches", "val": "validation"}
_MOST = 4
"""Panels of the picture."""


def training_picture(evidence: Evidence, number: int) -> Picture | None:
    """Draw loss, accuracy and so on over the steps; None without a training."""
    metrics = read_metrics(evidence.run)
    panels: list[Panel] = []
    for metric, title in _PANELS.items():
        lines = []
        for colour, (part, name) in enumerate(_PARTS.items()):
            if points := metrics.get(f"{part}/{metric}"):
                xs, ys = zip(*points, strict=True)
                lines.append(PanelLine(name, xs, ys, colour))
        # The F1 of one class is a part of the mean.
        known = metric == "f1" and "val/macro_f1" in metrics
        if lines and not known and len(panels) < _MOST:
            panels.append(Panel(title, lines))
    if not panels:
        return None
    stages = evidence.subjects.values()
    step = next((subject["step"] for subject in stages if "step" in subject), None)
    ends = "; ".join(
        f"{panel.title}: {line.name} from {line.ys[0]:.3f} to {line.ys[-1]:.3f}"
        for panel in panels
        for line in panel.lines
    )
    return panels_picture(
        f"training-{number}",
        panels,
        x_label="optimiser steps",
        mark=step,
        alt=f"Curves of the training. {ends}.",
    )


def read_metrics(run: RunDirectory) -> Mapping[str, Sequence[tuple[int, float]]]:
    """Return steps and finite values of each metric of the training; empty without a file.

    Raises:
        ValueError: the file is damaged.
    """
    if not run.metrics_path.is_file():
        return {}
    rows = (fields for _, fields in read_csv(run.metrics_path, "metrics of a training"))
    names = next(rows, [])
    metrics: dict[str, list[tuple[int, float]]] = {}
    for fields in rows:
        row = dict(zip(names, fields, strict=False))
        step = _number(row.get("step", ""))
        for name, field in row.items():
            value = _number(field)
            if step is not None and value is not None:
                metrics.setdefault(name, []).append((int(step), value))
    return metrics


def _number(field: str) -> float | None:
    try:
        value = float(field)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
