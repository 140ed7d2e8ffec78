"""The files of another run that a run begins with, and the check that they are still the same."""

import hashlib
import json
from pathlib import Path

from app.runs import atomic
from app.study.cells import Place
from app.study.reuse import OtherRunError
from app.study.study import Cell
from attacks.digests import file_digest
from text.bounded_files import read_json


def check_start(cell: Cell, place: Place, where: Path, *, begun: bool) -> None:
    """Refuses a run that began with other weights than those that its first run has now.

    The digests are kept in `studies/STUDY/starts/` from the first time that a run is looked at.

    Args:
        cell: the cell.
        place: where the study is run.
        where: working directory of the study.
        begun: True if the run is there; it is not checked before, only noted.

    Raises:
        OtherRunError: the weights differ.
    """
    runs = where / place.runs_dir
    found = {
        key: _digest(runs / path) for key, path in cell.start.items() if (runs / path).exists()
    }
    note = where / place.out / "starts" / f"{cell.run}.json"
    known = _noted(note) if begun and note.is_file() else {}
    for key, digest in found.items():
        if known.get(key, digest) != digest:
            msg = (
                f"run {cell.run} began with other weights than {runs / cell.start[key]} has now; "
                "move it away, and the study makes it anew"
            )
            raise OtherRunError(msg)
    if found and found != known:
        note.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(note, json.dumps(found, indent=2, sort_keys=True) + "\n")


def _noted(note: Path) -> dict[str, str]:
    try:
        return dict(read_json(note, "digests of weights"))
    except (TypeError, ValueError) as error:
        msg = (
            f"got {note} with unreadable content, expected digests of the weights that a run began "
            "with; delete it if these are still there"
        )
        raise OtherRunError(msg) from error


def _digest(path: Path) -> str:
    """The digest of weights: those in a checkpoint, or those in a folder of `transformers`."""
    from app.runs.weights import tensors_digest

    if path.is_dir():
        parts = [file_digest(file) for file in sorted(path.glob("*.safetensors"))]
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    return tensors_digest(path) if path.suffix == ".ckpt" else file_digest(path)
