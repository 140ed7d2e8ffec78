"""The outcomes of all samples of a `study.json`, in a file next to it: numbers, no texts.

`NAME.outcomes.json.gz` has, for each run and column, the predictions and their outcomes, so that
all tests and intervals can be computed again. docs/tables.md explains its fields.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.study.study import CellFigures, StudyError
from run_files import atomic

FORMAT = 1
"""Format number of the file; a reader refuses others."""
LIMIT = 2**28
"""Largest number of bytes of an unpacked file."""
_DIGITS = frozenset(map(float, range(10)))
Outcomes = Mapping[str, Any]
"""The content of the file as JSON values."""


def collect_outcomes(figures: Sequence[CellFigures]) -> Outcomes | None:
    """Return the content of the file; None where no run has outcomes."""
    samples: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}
    for cell in figures:
        for column, outcomes in cell.outcomes.items():
            digest = cell.samples[column]
            # Runs with the same samples share one entry.
            gold = _pack(cell.labels[column])
            samples[digest] = {"ids": list(cell.ids[column]), "gold": gold}
            runs.setdefault(cell.run, {})[column] = {
                "samples": digest,
                "outcomes": _pack(outcomes),
                "predictions": _pack(cell.predictions.get(column, ())),
            }
    return {"format": FORMAT, "samples": samples, "runs": runs} if runs else None


def path_of(study: Path) -> Path:
    """Return the file that belongs to a `study.json`."""
    return study.with_suffix(".outcomes.json.gz")


def digest_of(outcomes: Outcomes | None) -> str | None:
    """Return the SHA-256 of the content, which `study.json` names; None without outcomes."""
    return None if outcomes is None else hashlib.sha256(_encode(outcomes)).hexdigest()


def samples_digest(ids: Sequence[int], labels: Sequence[float]) -> str:
    """Return the SHA-256 of ids and labels of samples."""
    # As JSON, so that any program can compute the digest.
    pairs = [list(pair) for pair in zip(ids, labels, strict=True)]
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def write(study: Path, outcomes: Outcomes | None) -> None:
    """Write the file of a `study.json`; remove it if `outcomes` is None."""
    path = path_of(study)
    if outcomes is None:
        path.unlink(missing_ok=True)
        return
    # Without a time, the same outcomes give the same bytes.
    with atomic.replacing(path) as stream:
        stream.write(gzip.compress(_encode(outcomes), mtime=0))


def read(study: Path, digest: str | None) -> Outcomes | None:
    """Return the content of the file of a `study.json`; None where it has no outcomes.

    Raises:
        StudyError: the file is missing, unreadable, or has other outcomes.
    """
    if digest is None:
        return None
    path = path_of(study)
    if not path.is_file():
        msg = f"{path} not found, expected the outcomes that {study.name} was made from"
        raise StudyError(msg)
    try:
        with gzip.open(path) as stream:
            # Bounded: a small file may unpack to gigabytes.
            packed = stream.read(LIMIT + 1)
        content: Outcomes = {} if len(packed) > LIMIT else json.loads(packed)
        # The digest in `study.json` binds both files to each other.
        if digest_of(content) != digest or content["format"] != FORMAT:
            raise ValueError
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        msg = (
            f"got {path} with other outcomes than those that {study.name} was made from "
            f"(SHA-256 {digest[:12]}): publish both files together"
        )
        raise StudyError(msg) from error
    return content


def of_run(outcomes: Outcomes, run: str) -> dict[str, dict[str, Any]]:
    """Return fields of `CellFigures` of a run: outcomes, samples, ids, labels, predictions."""
    lines = outcomes["runs"].get(run, {})
    samples = {column: outcomes["samples"][line["samples"]] for column, line in lines.items()}
    return {
        "samples": {column: line["samples"] for column, line in lines.items()},
        "ids": {column: tuple(part["ids"]) for column, part in samples.items()},
        "labels": {column: _unpack(part["gold"]) for column, part in samples.items()},
        "outcomes": {column: _unpack(line["outcomes"]) for column, line in lines.items()},
        "predictions": {
            c: _unpack(text) for c, line in lines.items() if (text := line["predictions"])
        },
    }


def _pack(values: Sequence[float]) -> str | list[float]:
    """Return values as a text if all are digits, else as a list."""
    if _DIGITS.issuperset(values):
        return "".join(str(int(value)) for value in values)
    return list(values)


def _unpack(values: str | Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, values))


def _encode(outcomes: Outcomes) -> bytes:
    return json.dumps(outcomes, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
