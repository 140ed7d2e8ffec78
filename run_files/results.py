"""`results.json`: the numbers of a run, merged stage by stage."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NotRequired, TypedDict

from run_files import atomic
from run_files.certified_bounds import CertifyStage
from run_files.version import versions
from text.bounded_files import DataError, kind_of, read_json
from text.file_lock import locked
from text.json_shapes import check_shape
from text.subjects import differences

Stage = Literal["fit", "validate", "test", CertifyStage, "predict"]


_MOST_SAMPLES = 2**53
"""Above, JSON has no exact numbers."""
_COMBINED = ("attack/mean_", "attack/worst_")


class Results(TypedDict):
    """Content of `results.json`."""

    run: str
    method: str  # class of the module
    corpus: str
    seed: int
    positive: NotRequired[str]  # class of the metric `f1`, if it is about one class
    no_certificate: NotRequired[str]  # reason why predictions have no certificate
    # Threshold of a detector, and the validation figures that chose it.
    detector: NotRequired[dict[str, Any]]
    metrics: dict[str, float | None]  # by their flat names; None where not finite
    seconds: dict[str, float]  # duration of each finished stage; others have not ended
    # Subject of the numbers of each stage: weights, rows and settings of the evaluation.
    about: NotRequired[dict[str, dict[str, Any]]]
    versions: dict[str, str]  # program and libraries that wrote it last


class StageWeights(TypedDict, total=False):
    """The entry of `about` with the fields of `weights.Weights`; it may have more keys."""

    checkpoint: str | None
    file: str
    epoch: int
    step: int
    training_ended: bool | None


def read(path: Path) -> Results | None:
    """Return the results in `path`; None if the file does not exist.

    Raises:
        DataError: the file is not a `results.json`.
    """
    if kind_of(path) is None:
        return None
    results: Results = read_json(path, "results of a run; move it away")
    check_shape(results, Results, path)
    check_shape(results.get("about", {}), dict[str, StageWeights], path, "about")
    for name, value in results["metrics"].items():
        # Confidence intervals square the count: 1e300 samples would overflow.
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
    subject: Mapping[str, Any] | None = None,
) -> Results:
    """Add the numbers of one finished stage, a `Stage` or `attack/NAME`, in one step.

    The former numbers of the stage are dropped: they may be about other settings, and an
    unreliable figure has another name. `identity` has `run`, `method`, `corpus` and `seed`;
    `positive`, `no_certificate` and `detector`, if any; `subject` weights, rows and settings.

    Raises:
        OSError: the file cannot be locked or written; it is unchanged then.
        DataError: the existing file is not a `results.json`.
    """
    # JSON has no NaN and no infinity.
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    # Read and write under one lock: two stages may end at the same time.
    with locked(path):
        old = read(path)
        subjects = {} if old is None else {**old.get("about", {})}
        subjects.pop(stage, None)
        results = Results(
            run=identity["run"],
            method=identity["method"],
            corpus=identity["corpus"],
            seed=identity["seed"],
            metrics=after(old, stage, finite),
            seconds={**(old["seconds"] if old else {}), stage: round(seconds, 3)},
            about={**subjects, **({stage: dict(subject)} if subject else {})},
            versions=versions(),
        )
        if (positive := identity.get("positive", old and old.get("positive"))) is not None:
            results["positive"] = positive
        if "no_certificate" in identity:
            results["no_certificate"] = identity["no_certificate"]
        if "detector" in identity:
            results["detector"] = identity["detector"]
        write(path, results)
    return results


def reopened(results: Results | None) -> int | None:
    """Return the step from which a finished run is trained further; None once that has ended."""
    subjects = {} if results is None else results.get("about", {})
    return subjects.get("fit", {}).get("reopened")


def write(path: Path, results: Results) -> None:
    """Replace the file in one step; the caller holds its lock since it read the file."""
    atomic.write_text(path, json.dumps(results, indent=2) + "\n")


def after(
    old: Results | None, stage: str, metrics: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Return all numbers of a run after a stage has ended."""
    # Fitting and validation have the same metrics; each attack changes the mean over attacks.
    own = "val/" if stage in ("fit", "validate") else f"{stage}/"
    attack = stage.startswith("attack/")
    former = old["metrics"].items() if old else ()
    kept = {
        name: value
        for name, value in former
        if not name.startswith(own) and not (attack and is_combined(name))
    }
    return {**kept, **metrics}


def is_combined(metric: str) -> bool:
    """Return True for a metric over several attacks: each attack changes it."""
    # An attack may have such a name, too: `attack/worst_case/accuracy`.
    return metric.startswith(_COMBINED) and metric.count("/") == 1


def foreign_subjects(
    results: Results | None,
    *,
    checkpoint: str | None = None,
    rows: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return the subjects of the stages about other weights, or other rows of the same splits.

    Without `checkpoint`, the SHA-256 of the weights, only the digests of `rows` are compared.
    """
    now = {name: v for name, v in {"checkpoint": checkpoint, **rows}.items() if v is not None}

    def is_foreign(subject: Mapping[str, Any]) -> bool:
        stored = {"checkpoint": subject.get("checkpoint"), **subject.get("rows", {})}
        recorded = {name for name, value in stored.items() if value not in (None, "none")}
        return bool(differences(stored, now, only=recorded & now.keys()))

    # Older versions did not record subjects.
    subjects = [] if results is None else results.get("about", {}).values()
    return [subject for subject in subjects if is_foreign(subject)]


def only_fit(results: Results) -> Results:
    """Return the results of the fit alone, without those of evaluations."""
    # After `validate`, the metrics val/... are those of an evaluation.
    metrics = {} if "validate" in results["seconds"] else results["metrics"]
    parts: Results = {
        **results,
        "metrics": {name: v for name, v in metrics.items() if name.startswith("val/")},
        "seconds": {name: spent for name, spent in results["seconds"].items() if name == "fit"},
        "about": {name: of for name, of in results.get("about", {}).items() if name == "fit"},
    }
    return parts


def reopen(path: Path, step: int) -> None:
    """Mark the fit as unfinished at its last step: the run is trained further."""
    with locked(path):
        results = read(path)
        if results is not None and results["seconds"].pop("fit", None) is not None:
            results["about"] = {**results.get("about", {}), "fit": {"reopened": step}}
            if "validate" not in results["seconds"]:
                metrics = results["metrics"]
                results["metrics"] = {n: v for n, v in metrics.items() if not n.startswith("val/")}
            write(path, results)
