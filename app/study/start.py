"""Checks that the weights a run started from have not changed."""

import hashlib
import json
from pathlib import Path

from app.study.cells import StudyContext
from app.study.reuse import OtherRunError
from app.study.study import Cell
from attacks.digests import file_digest
from run_files import atomic
from text.bounded_files import read_json
from text.subjects import differences


def check_start(cell: Cell, context: StudyContext, where: Path, *, begun: bool) -> None:
    """Raise an OtherRunError if a run began with other weights than its first run has now.

    The digests are in `studies/STUDY/starts/` since the first check of a run. A run that has not
    begun has nothing to compare.
    """
    runs = where / context.runs_dir
    digests = {
        key: _digest(runs / path) for key, path in cell.start.items() if (runs / path).exists()
    }
    note = where / context.out / "starts" / f"{cell.run}.json"
    recorded = _read_note(note) if begun and note.is_file() else {}
    for change in differences(recorded, digests, only=recorded.keys() & digests.keys()):
        msg = (
            f"run {cell.run} began with other weights than {runs / cell.start[change.name]} has "
            "now; move it away, and the study makes it anew"
        )
        raise OtherRunError(msg)
    # A run without `start` needs no note.
    if digests and digests != recorded:
        note.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(note, json.dumps(digests, indent=2, sort_keys=True) + "\n")


def _read_note(note: Path) -> dict[str, str]:
    try:
        return dict(read_json(note, "digests of weights"))
    except (TypeError, ValueError) as error:
        msg = (
            f"got {note} with unreadable content, expected digests of the weights that a run began "
            "with; delete it if these are still there"
        )
        raise OtherRunError(msg) from error


def _digest(path: Path) -> str:
    """Return the digest of a checkpoint, or of a directory of `transformers`."""
    from run_files.weights import tensors_digest

    if path.is_dir():
        # Large models are divided into several files.
        parts = [file_digest(file) for file in sorted(path.glob("*.safetensors"))]
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    return tensors_digest(path) if path.suffix == ".ckpt" else file_digest(path)
