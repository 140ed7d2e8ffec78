"""`results.json`: the numbers of a run, merged stage by stage."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from app import atomic
from app.version import versions

Stage = Literal["fit", "validate", "test", "certify", "certify_paper"]


class Results(TypedDict):
    """Content of `results.json`.

    Attributes:
        run: name of the run.
        method: class of the module.
        corpus: name of the corpus.
        seed: seed of the run.
        no_certificate: why predictions have no certificate, where they have none.
        metrics: flat metric names and their values; None where a value is not a finite number.
        seconds: what each finished stage took; a stage that is not named here has not ended.
        versions: program and libraries that wrote it last.
    """

    run: str
    method: str
    corpus: str
    seed: int
    no_certificate: NotRequired[str]
    metrics: dict[str, float | None]
    seconds: dict[str, float]
    versions: dict[str, str]


def read(path: Path) -> Results | None:
    """The results in `path`, or None if there are none yet.

    Raises:
        ValueError: the file is not a `results.json`.
    """
    try:
        content: Any = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        content = error
    if not isinstance(content, dict) or not {"metrics", "seconds"} <= content.keys():
        msg = f"got {path} with unreadable content, expected results of a run; move it away"
        raise ValueError(msg)
    results: Results = content  # type: ignore[assignment] # keys checked above
    return results


def merge(
    path: Path,
    stage: str,
    *,
    identity: dict[str, Any],
    metrics: dict[str, float],
    seconds: float,
) -> Results:
    """Add the numbers of one finished stage to the file, in one step.

    The end of a fit drops the numbers of earlier stages: they belong to other weights. The end of
    an attack drops those that it had before: a figure may have lost its name by being unreliable.

    Args:
        path: the `results.json`.
        stage: what has ended: a `Stage`, or `attack/NAME`.
        identity: `run`, `method`, `corpus` and `seed`; `no_certificate` if there is a reason.
        metrics: its metrics.
        seconds: what it took.

    Raises:
        OSError: the file cannot be written; it is unchanged then.
    """
    old = None if stage == "fit" else read(path)
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    results = Results(
        run=identity["run"],
        method=identity["method"],
        corpus=identity["corpus"],
        seed=identity["seed"],
        metrics=after(old, stage, finite),
        seconds={**(old["seconds"] if old else {}), stage: round(seconds, 3)},
        versions=versions(),
    )
    if "no_certificate" in identity:
        results["no_certificate"] = identity["no_certificate"]
    atomic.write_text(path, json.dumps(results, indent=2) + "\n")
    return results


def after(
    old: Results | None, stage: str, metrics: Mapping[str, float | None]
) -> dict[str, float | None]:
    """All numbers once a stage has ended."""
    kept = old["metrics"] if old else {}
    if stage.startswith("attack/"):
        dropped = (f"{stage}/", "attack/mean_")
        kept = {name: value for name, value in kept.items() if not name.startswith(dropped)}
    return {**kept, **metrics}


def reopen(path: Path) -> None:
    """Mark the fit as unfinished and drop all numbers: the weights are about to change."""
    results = read(path)
    if results is not None:
        results["metrics"], results["seconds"] = {}, {}
        atomic.write_text(path, json.dumps(results, indent=2) + "\n")
