"""Parts of a study that was divided among machines, and how they come together again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from app.runs import atomic
from app.runs.shard import Shard
from app.study.cells import chains
from app.study.study import Cell, CellFigures, Study, StudyError
from text.bounded_files import DataError, read_json

FORMAT = 2
"""Number of the form of the file; a reader refuses others."""


def take(cells: Sequence[Cell], shard: Shard) -> list[Cell]:
    """Returns the cells of one part: every N-th chain of `after`, whole."""
    return [cell for chain in shard.take(chains(cells)) for cell in chain]


def path_of(study: str, shard: Shard, out: Path) -> Path:
    """Returns the file of a part."""
    return out / f"{study}.{shard.suffix()}.json"


def write(
    path: Path,
    study: Study,
    shard: Shard,
    figures: Sequence[CellFigures],
    versions: Mapping[str, str],
) -> None:
    """Writes what was measured in one part.

    Raises:
        OSError: it cannot be written; what was there before is unchanged.
    """
    content = {
        "format": FORMAT,
        "study": study.name,
        "digest": study.digest,
        "shard": str(shard),
        "versions": dict(versions),
        "figures": [asdict(one) for one in figures],
    }
    atomic.write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def merged(study: Study, paths: Sequence[Path]) -> tuple[list[CellFigures], dict[str, str]]:
    """Returns the figures of all parts, and the versions that all were made with.

    Args:
        study: the study, with the file that the parts were run from.
        paths: of all parts, in any order.

    Raises:
        StudyError: parts are missing, given twice, or not of this study; all problems in one
            message.
    """
    parts = {path: _read(path) for path in paths}
    problems = []
    counts = {Shard.of(part["shard"]).count for part in parts.values()}
    indices = [Shard.of(part["shard"]).index for part in parts.values()]
    for path, part in parts.items():
        if (part["study"], part["digest"]) != (study.name, study.digest):
            problems.append(
                f"got {path} of another file of study {part['study']}, expected parts of "
                f"{study.name} as it is now: run that part again"
            )
    if len(counts) > 1:
        shards = ", ".join(sorted(part["shard"] for part in parts.values()))
        problems.append(f"got parts {shards}, expected all of one division")
    elif sorted(indices) != (wanted := list(range(1, max(counts, default=1) + 1))):
        given = ", ".join(map(str, sorted(indices))) or "none"
        problems.append(f"got parts {given}, expected each of 1 to {wanted[-1]} once")
    versions = [part["versions"] for part in parts.values()]
    if any(one != versions[0] for one in versions):
        changed = sorted(key for key in versions[0] if len({one.get(key) for one in versions}) > 1)
        problems.append(
            f"got parts of several versions of {', '.join(changed)}, expected one: run all parts "
            "with the same program"
        )
    if problems:
        raise StudyError("\n".join(problems))
    return [_figures(one) for part in parts.values() for one in part["figures"]], versions[0]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path, "a part of a study")
    except DataError as error:
        content = error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        why = f" ({content})" if isinstance(content, DataError) else ""
        msg = f"got {path}{why}, expected a part that `study run --shard I/N` has written"
        raise StudyError(msg)
    return content


def _figures(line: Mapping[str, Any]) -> CellFigures:
    """One line of figures, with tuples where JSON has lists."""
    given = {one.name: line[one.name] for one in fields(CellFigures)}
    for name in ("outcomes", "ids", "labels", "predictions"):
        given[name] = {key: tuple(values) for key, values in given[name].items()}
    for name in ("unreliable", "revisions"):
        given[name] = tuple(given[name])
    return CellFigures(**given)
