"""Parts of a study that was divided among machines: writes and merges them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.study.cells import chains
from app.study.study import Cell, CellFigures, Study, StudyError, with_tuples
from run_files import atomic
from run_files.shard import Shard
from text.bounded_files import DataError, read_json

FORMAT = 2
"""Format number of the file; a reader refuses others."""


def take(cells: Sequence[Cell], shard: Shard) -> list[Cell]:
    """Return the cells of one part: every N-th complete chain of `after`."""
    return [cell for chain in shard.take(chains(cells)) for cell in chain]


def path_of(study: str, shard: Shard, out: Path) -> Path:
    """Return the file of a part."""
    return out / f"{study}.{shard.suffix()}.json"


def write(
    path: Path,
    study: Study,
    shard: Shard,
    figures: Sequence[CellFigures],
    versions: Mapping[str, str],
) -> None:
    """Write the figures of one part, in one step."""
    content = {
        "format": FORMAT,
        "study": study.name,
        "digest": study.digest,
        "shard": str(shard),
        "versions": dict(versions),
        "figures": [asdict(figure) for figure in figures],
    }
    atomic.write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def merge(study: Study, paths: Sequence[Path]) -> tuple[list[CellFigures], dict[str, str]]:
    """Return the figures of all parts, and the versions that all were made with.

    Raises:
        StudyError: parts are missing, repeated, or not of this study; all problems in one message.
    """
    parts = [_read(path) for path in paths]
    problems = [
        f"got {path} of another file of study {part['study']}, expected parts of {study.name} as "
        "it is now: run that part again"
        for path, part in zip(paths, parts, strict=True)
        if (part["study"], part["digest"]) != (study.name, study.digest)
    ]
    # Parts of two divisions would overlap.
    shards = [Shard.of(part["shard"]) for part in parts]
    counts = {shard.count for shard in shards}
    indices = sorted(shard.index for shard in shards)
    # Also finds a missing last part: each part knows their number.
    expected = list(range(1, max(counts, default=1) + 1))
    if len(counts) > 1:
        divisions = ", ".join(sorted(part["shard"] for part in parts))
        problems.append(f"got parts {divisions}, expected all of one division")
    elif indices != expected:
        numbers = ", ".join(map(str, indices)) or "none"
        problems.append(f"got parts {numbers}, expected each of 1 to {expected[-1]} once")
    versions = [part["versions"] for part in parts]
    if any(other != versions[0] for other in versions):
        changed = sorted(key for key in versions[0] if len({v.get(key) for v in versions}) > 1)
        problems.append(
            f"got parts of several versions of {', '.join(changed)}, expected one: run all parts "
            "with the same program"
        )
    if problems:
        raise StudyError("\n".join(problems))
    figures = [CellFigures(**with_tuples(line)) for part in parts for line in part["figures"]]
    return figures, versions[0]


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
