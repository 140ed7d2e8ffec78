"""List the runs of a directory, the latest first.

State, method, corpus, seed, figures of the test split.
"""

import argparse
import datetime
import fcntl
import fnmatch
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from app.cli.run_options import SEVERAL, add_option, command_parser
from datamodules import CORPUS_NAMES
from measure.verdict import Level, judge_run
from run_files.results import Results
from run_files.run_directory import RunDirectory, class_name
from run_files.terminal import harmless
from text.bounded_files import DataError, kind_of, reading

State = Literal["training", "interrupted", "begun", "trained", "measured", "damaged"]
_HEADLINES = ("test/accuracy", "test/spearman", "test/f1", "test/bits_per_character", "test/loss")
"""The list shows the first of these metrics that a run has."""


class ListedRun(NamedTuple):
    """A run in the list; None for what is unknown, or was not measured.

    A process trains the run in state `training`; the same command resumes one that is
    `interrupted`. `begun` is without a checkpoint, `measured` with one of another run.
    """

    run: str
    state: State
    stages: tuple[str, ...] = ()  # finished ones: fit, test, attack/pwws
    method: str | None = None
    corpus: str | None = None
    seed: int | None = None
    metric: str | None = None  # the shown figure of the test split
    value: float | None = None
    radius: float | None = None  # mean certified radius, 0 where the prediction is wrong
    attack: str | None = None  # the strongest one
    attacked: float | None = None  # the accuracy under it
    changed: str = ""  # date of the last change, ISO 8601
    problem: str | None = None  # the error of a damaged run
    unattacked: float | None = None  # the accuracy of the same texts without the attack
    macro_f1: float | None = None
    level: Level | None = None
    verdict: str | None = None  # as a sentence


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    folder = Path(args.runs_dir)
    if not folder.is_dir():
        msg = (
            f"got --runs_dir {folder}, which is not a directory, expected that of your runs: "
            "`train` makes one, runs/, where it is started"
        )
        raise FileNotFoundError(msg)
    runs = list_runs(folder, args.run or ())
    if args.json:
        for run in runs:
            print(json.dumps(run._asdict(), ensure_ascii=False))
        return 0
    print(harmless(table(runs)) if runs else f"no runs in {folder}")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("runs", __doc__, "--runs_dir", "--json")
    text = "names, or patterns as 'olsa-*' (default: all)"
    add_option(parser, "--run", **SEVERAL | {"help": text})
    return parser


def list_runs(folder: Path, names: Sequence[str] = ()) -> list[ListedRun]:
    """Return the runs of a directory with these names or patterns, or all, the latest first."""
    # A broken link or a pipe is listed as a damaged run.
    runs = [RunDirectory(path) for path in folder.iterdir() if kind_of(path / "config.yaml")]
    runs = [run for run in runs if not names or any(fnmatch.fnmatch(run.name, n) for n in names)]
    dated = [(_changed(run.path), run) for run in runs]
    return [_list_run(run, when) for when, run in sorted(dated, key=lambda pair: -pair[0])]


def _changed(folder: Path) -> float:
    """Return the time of the last change in a folder."""
    paths, times = [folder], [0.0]
    with suppress(OSError):  # closed to us
        paths += folder.iterdir()
    for path in paths:
        with suppress(OSError):  # removed in the meantime
            # `lstat` does not follow links, which may be broken.
            times.append(path.lstat().st_mtime)
    return max(times)


def table(runs: Sequence[ListedRun]) -> str:
    """Return a list of runs as aligned text."""
    head = (
        *("run", "state", "method", "corpus", "seed", "test", "macro-F1", "certified"),
        *("under attack", "verdict", "last"),
    )
    rows = [head]
    for run in runs:
        name = (run.metric or "").removeprefix("test/")
        figure = f"{name} {_shown(run.value)}" if name else ""
        attack = "" if run.attack is None else f"{run.attack} {_shown(run.attacked)}"
        if run.unattacked is not None:
            attack += f" of {_shown(run.unattacked)}"
        f1 = "" if run.macro_f1 is None else _shown(run.macro_f1)
        level = "" if run.level in (None, "unmeasured") else str(run.level)
        if run.level == "collapsed":
            level += ": robustness means nothing"
        radius = "" if run.radius is None else f"radius {run.radius:.3f}"
        seed = "" if run.seed is None else str(run.seed)
        when = run.changed[:16].replace("T", " ")
        training = (run.run, run.problem or run.state, run.method or "", run.corpus or "", seed)
        rows.append((*training, figure, f1, radius, attack, level, when))
    columns = [i for i in range(len(head)) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in columns}
    lines = ("  ".join(f"{row[i]:<{widths[i]}}" for i in columns).rstrip() for row in rows)
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3f}"


def _list_run(run: RunDirectory, when: float) -> ListedRun:
    changed = datetime.datetime.fromtimestamp(when).astimezone().isoformat(timespec="seconds")
    try:
        with reading(run.path, "a run"):
            return _read_run(run, changed)
    except DataError as error:
        return ListedRun(run.name, "damaged", changed=changed, problem=str(error))


def _read_run(run: RunDirectory, changed: str) -> ListedRun:
    """Return the entry of a readable run."""
    results, settings = run.results(), run.config()
    seed = settings.get("seed_everything")
    metrics = {} if results is None else results["metrics"]
    metric = next((name for name in _HEADLINES if name in metrics), None)
    recipe, attacked = _strongest(metrics)
    verdict = None if results is None else judge_run(run, results)
    return ListedRun(
        run=run.name,
        state=_state(run, results),
        stages=() if results is None else tuple(results["seconds"]),
        method=class_name(settings, "model") if results is None else results["method"],
        corpus=_corpus_name(settings) if results is None else results["corpus"],
        seed=(seed if isinstance(seed, int) else None) if results is None else results["seed"],
        metric=metric,
        value=None if metric is None else metrics[metric],
        radius=metrics.get("certify/radius_correct"),
        attack=recipe,
        attacked=attacked,
        changed=changed,
        unattacked=metrics.get(f"attack/{recipe}/clean_accuracy"),
        macro_f1=metrics.get("test/macro_f1"),
        level=None if verdict is None else verdict.level,
        verdict=None if verdict is None else verdict.headline,
    )


def _corpus_name(settings: Mapping[str, Any]) -> str | None:
    """Return the name that results have for the corpus of some settings, without torch."""
    data, name = settings.get("data"), class_name(settings, "data")
    named = data.get("init_args", {}).get("name") if isinstance(data, Mapping) else None
    return named or CORPUS_NAMES.get(name or "", name)


def _state(run: RunDirectory, results: Results | None) -> State:
    if _locked(run.path / ".lock"):
        return "training"
    if results is not None and "fit" in results["seconds"]:
        return "trained"
    if any(run.checkpoints.glob("*.ckpt")):
        return "interrupted"
    return "begun" if results is None else "measured"


def _locked(path: Path) -> bool:
    """Return True if some process trains the run."""
    try:
        with path.open("rb") as file:
            # A training holds an exclusive lock, which makes this call fail.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a file system without locks
        return False
    return False


def _strongest(metrics: dict[str, float | None]) -> tuple[str | None, float | None]:
    """Return the attack with the smallest accuracy, and that; unreliable figures do not count."""
    accuracies = {
        # A figure that is not finite is None in the file: it is never the smallest.
        parts[1]: math.inf if value is None else value
        for name, value in metrics.items()
        if len(parts := name.split("/")) == 3 and parts[0] == "attack" and parts[2] == "accuracy"
    }
    if not accuracies:
        return None, None
    recipe = min(accuracies, key=lambda name: accuracies[name])
    return recipe, None if math.isinf(accuracies[recipe]) else accuracies[recipe]
