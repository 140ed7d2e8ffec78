"""Small runs for reports, written by hand: no training."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run_files.run_directory import RunDirectory
from tests.unit.app.study.run_samples import digest, make_run, write_lines

PGD = {"epsilon": 1.0, "steps": 2, "norm": "l2", "loss": "margin"}


def certified_run(
    path: Path,
    *,
    radii: Sequence[float] = (0.5, 1.5, 0.0, 2.5),
    labels: Sequence[int] = (0, 1, 1, 0),
    predictions: Sequence[int] = (0, 1, 0, 0),
    attacked: Sequence[int] = (1, 1, 0, 0),
    metrics: Mapping[str, float] | None = None,
) -> RunDirectory:
    """Four texts: accuracy 3/4, certified accuracy 2/4 at 1, the first one changed by PGD."""
    found = {"test/accuracy": 0.75, "test/pgd_accuracy": 0.5, "certify/accuracy@1": 0.5}
    stages: dict[str, dict[str, Any]] = {"test": {"pgd": PGD}, "certify": {"bound": "sound"}}
    run = make_run(path, metrics={**found, **(metrics or {})}, about=stages)
    stamp = {"checkpoint": digest(path)[:12]}
    rows = list(zip(labels, predictions, radii, attacked, strict=True))
    write_lines(
        path / "certificates.jsonl",
        [
            {"sample_id": i, "label": y, "prediction": p, "margin": r, "lipschitz": 1.0}
            | {"radius": r, "bound": "sound"}
            | stamp
            for i, (y, p, r, _) in enumerate(rows)
        ],
    )
    write_lines(
        path / "pgd.jsonl",
        [
            {"sample_id": i, "label": y, "prediction": p, "pgd_prediction": a}
            | {"survived": y == p == a}
            | stamp
            for i, (y, p, _, a) in enumerate(rows)
        ],
    )
    return run


def write_predictions(run: RunDirectory, records: Sequence[Mapping[str, Any]]) -> None:
    stamp = {"checkpoint": digest(run.path)[:12]}
    lines = [{"sample_id": i, **one, **stamp} for i, one in enumerate(records)]
    write_lines(run.predictions, lines)


def write_text_attack(
    run: RunDirectory, name: str, pairs: Sequence[tuple[str, str | None]], **about: Any
) -> None:
    """An attack on texts of class 0; None where it has failed."""
    records = [
        {
            "sample_id": i,
            "label": 0,
            "prediction": 0,
            "outcome": "failed" if found is None else "succeeded",
            "text": text,
            "adversarial": found,
            "adversarial_prediction": None if found is None else 1,
            "score": -1.0,
            "adversarial_score": 1.0,
            "words": len(text.split()),
            "words_changed": 1,
            "similarity": None,
            "queries": 3,
            "unique_queries": 3,
            "exhausted": False,
            "saturated": False,
            "seconds": 0.1,
            "seed": 0,
        }
        for i, (text, found) in enumerate(pairs)
    ]
    write_lines(run.path / "attacks" / f"{name}.jsonl", records)
    side = {"about": {"checkpoint": digest(run.path), "score": "margin", "split": "test", **about}}
    (run.path / "attacks" / f"{name}.json").write_text(json.dumps({**side, "seconds": 1.0}))
