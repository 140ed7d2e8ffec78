"""Points of a figure, each written as soon as it is measured; a killed command goes on."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.runs import atomic
from attacks.json_lines import append, open_lines, read_lines

Point = dict[str, Any]


def column(kinds: Sequence[str]) -> int:
    """The width of the first column of a table, in characters.

    Args:
        kinds: the names in that column.
    """
    return max(24, *(len(kind) + 2 for kind in kinds))


def measured(
    path: Path,
    about: Mapping[str, Any],
    keys: Sequence[Any],
    measure: Callable[[Any], Point],
) -> list[Point]:
    """Returns all points, and measures those that are missing.

    Args:
        path: a file of JSON lines with those that were measured before.
        about: all settings that a point depends on.
        keys: one for each point, in order.
        measure: makes a point of its key.

    Raises:
        ValueError: the file has points of other settings.
        OSError: it cannot be read or written.
    """
    from tqdm import tqdm  # type: ignore[import-untyped] # ships no annotations

    # As JSON has them.
    about = json.loads(json.dumps(about))
    points: list[Point] = []
    length = 0
    if path.is_file():
        former, points, length = read_lines(path, dict)
        if length and former != about:
            changed = sorted(k for k in {*about, *former} if about.get(k) != former.get(k))
            msg = (
                f"got other settings ({', '.join(changed)}) than those of {path}, expected the "
                "same; give another name by --run, or delete the file"
            )
            raise ValueError(msg)
    points = points[: len(keys)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_lines(path, about, length) as stream:
        rest = keys[len(points) :]
        bar = tqdm(rest, total=len(keys), initial=len(points), disable=None, unit="point")
        for key in bar:
            # As it is read again, so that a resumed figure has the same bytes.
            point = json.loads(json.dumps(measure(key)))
            append(stream, [point])
            points.append(point)
    return points


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file, wholly or not at all."""
    atomic.write_text(path, json.dumps(content, indent=2) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows with the same names as a CSV file, wholly or not at all."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic.write_text(path, stream.getvalue())
