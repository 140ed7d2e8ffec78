"""Small run directories, written by hand: no training."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from run_files.run_directory import RunDirectory

SETTINGS = {
    "seed_everything": 0,
    "model": {"class_path": "OLSA", "init_args": {"width": 8, "objective": {"gamma": 0.5}}},
    "data": {"class_path": "Reviews", "init_args": {"data_dir": "data"}},
    "trainer": {"max_epochs": 2},
    "checkpoint": {},
    "early_stopping": {},
    "checkpoint_every_n_minutes": 5.0,
    "on_nonfinite_loss": "stop",
}


def digest(run: Path) -> str:
    return hashlib.sha256((run / "checkpoints" / "best.ckpt").read_bytes()).hexdigest()


def write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def make_run(
    path: Path,
    *,
    seed: int = 0,
    metrics: Mapping[str, float | None],
    settings: Mapping[str, Any] | None = None,
    about: Mapping[str, Mapping[str, Any]] | None = None,
    rows: str = "rows of the test",
) -> RunDirectory:
    """A run with figures of its own weights.

    Args:
        path: its directory.
        seed: of the run.
        metrics: of `results.json`.
        settings: instead of those of `SETTINGS`.
        about: of further stages than the test; what is given of a stage is added.
        rows: digest of the test split.
    """
    (path / "checkpoints").mkdir(parents=True)
    (path / "checkpoints" / "best.ckpt").write_bytes(path.name.encode())
    written = {**SETTINGS, **(settings or {}), "seed_everything": seed}
    (path / "config.yaml").write_text(yaml.safe_dump(written))
    measured = {"checkpoint": digest(path), "rows": {"test": rows}, "seed": seed}
    stages = {"test": {}, **(about or {})}
    content = {
        "run": path.name,
        "method": "OLSA",
        "corpus": "reviews",
        "seed": seed,
        "metrics": dict(metrics),
        "seconds": {"fit": 2.0, **dict.fromkeys(stages, 1.0)},
        "about": {"fit": {}, **{stage: {**measured, **own} for stage, own in stages.items()}},
        "versions": {"torch": "2.13.0"},
    }
    (path / "results.json").write_text(json.dumps(content))
    return RunDirectory(path)


def write_pgd(run: RunDirectory, labels: str, predictions: str, survived: str) -> None:
    """`pgd.jsonl` of the samples, a sign for each."""
    columns = zip(labels, predictions, survived, strict=True)
    records = [
        {
            "sample_id": i,
            "label": int(label),
            "prediction": int(prediction),
            "pgd_prediction": 0,
            "survived": stood == "1",
            "checkpoint": digest(run.path)[:12],
        }
        for i, (label, prediction, stood) in enumerate(columns)
    ]
    write_lines(run.path / "pgd.jsonl", records)


def write_attack(
    run: RunDirectory, name: str, labels: str, predictions: str, succeeded: str, **about: Any
) -> None:
    """Records and settings of an attack, in the order in which they were drawn."""
    folder = run.path / "attacks"
    columns = list(zip(labels, predictions, succeeded, strict=True))
    records = [
        {
            "sample_id": 10 * i,
            "label": int(label),
            "prediction": int(prediction),
            "outcome": "skipped"
            if label != prediction
            else ("succeeded" if fooled == "1" else "failed"),
        }
        for i, (label, prediction, fooled) in reversed(list(enumerate(columns)))
    ]
    write_lines(folder / f"{name}.jsonl", records)
    side = {"about": {"checkpoint": digest(run.path), **about}, "seconds": 1.0}
    (folder / f"{name}.json").write_text(json.dumps(side))
