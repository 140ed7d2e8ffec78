"""`results.json`: the numbers of a run, merged stage by stage."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from run_files import atomic
from run_files.certified_bounds import CertifyStage
from run_files.version import versions
from text.bounded_files import DataError, kind_of, read_json
from text.file_lock import locked
from text.json_shapes import check_shape

Stage = Literal["fit", "validate", "test", CertifyStage, "predict"]


_MOST_SAMPLES = 2**53
"""Above, JSON has no exact numbers."""


class Results(TypedDict):
    """Content of `results.json`.

    Attributes:
        run: name of the run.
        method: class of the module.
        corpus: name of the corpus.
        seed: seed of the run.
        positive: class that `f1` is of, where a class has it.
        no_certificate: why predictions have no certificate, where they have none.
        metrics: flat metric names and their values; None where a value is not a finite number.
        seconds: seconds that each finished stage took; a stage that is not named here has not
            ended.
        about: subject of the numbers of each stage: weights, rows and settings of the evaluation.
        versions: program and libraries that wrote it last.
    """

    run: str
    method: str
    corpus: str
    seed: int
    positive: NotRequired[str]
    no_certificate: NotRequired[str]
    metrics: dict[str, float | None]
    seconds: dict[str, float]
    about: NotRequired[dict[str, dict[str, Any]]]
    versions: dict[str, str]


class StageWeights(TypedDict, total=False):
    """What `about` says of the weights behind a stage's numbers; other names may follow.

    Attributes:
        checkpoint: SHA-256 of their file.
        file: its name.
        epoch: in which they were saved.
        step: optimiser steps that lie behind them.
        training_ended: True if the training that they come from has ended.
    """

    checkpoint: str | None
    file: str
    epoch: int
    step: int
    training_ended: bool | None


def read(path: Path) -> Results | None:
    """The results in `path`, or None if there are none yet.

    Raises:
        DataError: the file is not a `results.json`.
    """
    if kind_of(path) is None:
        return None
    results: Results = read_json(path, "results of a run; move it away")
    check_shape(results, Results, path)
    check_shape(results.get("about", {}), dict[str, StageWeights], path, "about")
    for name, value in results["metrics"].items():
        # Statistics square it: 1e300 samples would overflow.
        count = value or 0
        if name.endswith("/samples") and not (0 <= count < _MOST_SAMPLES and count == int(count)):
            msg = (
                f"got {path} with {value} as metrics.{name}, expected a number of samples; it is "
                "damaged: move it away"
            )
            raise DataError(msg)
    return results


def merge(
    path: Path,
    stage: str,
    *,
    identity: dict[str, Any],
    metrics: dict[str, float],
    seconds: float,
    about: Mapping[str, Any] | None = None,
) -> Results:
    """Add the numbers of one finished stage to the file, in one step.

    All numbers that the stage had before are dropped: they may be about other settings, and a
    figure may have lost its name by being unreliable.

    Args:
        path: the `results.json`.
        stage: what has ended: a `Stage`, or `attack/NAME`.
        identity: `run`, `method`, `corpus` and `seed`; `positive` and `no_certificate`, if any.
        metrics: its metrics.
        seconds: what it took.
        about: what the numbers are about.

    Raises:
        OSError: the file cannot be locked or written; it is unchanged then.
        DataError: the file that is there is not a `results.json`.
    """
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    with locked(path):
        old = read(path)
        known = {} if old is None else {**old.get("about", {})}
        known.pop(stage, None)
        results = Results(
            run=identity["run"],
            method=identity["method"],
            corpus=identity["corpus"],
            seed=identity["seed"],
            metrics=after(old, stage, finite),
            seconds={**(old["seconds"] if old else {}), stage: round(seconds, 3)},
            about={**known, **({stage: dict(about)} if about else {})},
            versions=versions(),
        )
        if (positive := identity.get("positive", old and old.get("positive"))) is not None:
            results["positive"] = positive
        if "no_certificate" in identity:
            results["no_certificate"] = identity["no_certificate"]
        write(path, results)
    return results


def reopened(results: Results | None) -> int | None:
    """Return the step from which a finished run is trained further; None once that has ended."""
    about = {} if results is None else results.get("about", {})
    return about.get("fit", {}).get("reopened")


def write(path: Path, results: Results) -> None:
    """Replace the file in one step; who has read it before has to hold its lock."""
    atomic.write_text(path, json.dumps(results, indent=2) + "\n")


def after(
    old: Results | None, stage: str, metrics: Mapping[str, float | None]
) -> dict[str, float | None]:
    """All numbers once a stage has ended."""
    kept = old["metrics"] if old else {}
    dropped = _prefixes(stage)
    return {**{n: value for n, value in kept.items() if not n.startswith(dropped)}, **metrics}


def _prefixes(stage: str) -> tuple[str, ...]:
    """The prefix of a stage's metric names."""
    if stage in ("fit", "validate"):
        return ("val/",)
    return (f"{stage}/", "attack/mean_") if stage.startswith("attack/") else (f"{stage}/",)


def about_stages(results: Results | None) -> list[dict[str, Any]]:
    """The weights and rows behind each stage's numbers; older versions did not record them."""
    return [] if results is None else list(results.get("about", {}).values())


def only_fit(results: Results) -> Results:
    """The results without those of evaluations."""
    metrics = {} if "validate" in results["seconds"] else results["metrics"]
    parts: Results = {
        **results,
        "metrics": {name: v for name, v in metrics.items() if name.startswith("val/")},
        "seconds": {name: spent for name, spent in results["seconds"].items() if name == "fit"},
        "about": {name: of for name, of in results.get("about", {}).items() if name == "fit"},
    }
    return parts


def reopen(path: Path, step: int) -> None:
    """Mark the fit as unfinished: the run is trained further.

    Args:
        path: the `results.json`.
        step: that of the finished training.
    """
    with locked(path):
        results = read(path)
        if results is not None and results["seconds"].pop("fit", None) is not None:
            results["about"] = {**results.get("about", {}), "fit": {"reopened": step}}
            if "validate" not in results["seconds"]:
                kept = results["metrics"].items()
                results["metrics"] = {name: v for name, v in kept if not name.startswith("val/")}
            write(path, results)
