"""The curves of a detector: detected texts against false alarms, precision against both."""

from typing import Any

from app.report.page_parts import format_number
from app.report.report_pictures import Panel, PanelLine, Picture, panels_picture
from measure.evidence import Evidence
from text.bounded_files import DataError, kind_of, read_json
from text.json_shapes import check_shape


def detection_picture(evidence: Evidence, number: int) -> Picture | None:
    """Draw the curves that `test` has stored of a detector; None without them.

    Raises:
        DataError: the file has another content.
    """
    path = evidence.run.detection
    if kind_of(path) is None:
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
    threshold = []
    if len(at) == 2:
        threshold = [PanelLine("threshold", at[:1], at[1:], 1)]
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
