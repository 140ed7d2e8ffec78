"""Runs of the program that benchmarks make, their results, and tables of them."""

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl

NOT_RUN = "not run"


class Row(NamedTuple):
    """A line of a table.

    Attributes:
        title: its first cell.
        run: name of its run.
        options: of the training command.
    """

    title: str
    run: str
    options: Sequence[str]


def call(command: str, options: Sequence[str]) -> None:
    """Runs one command of the program."""
    words = [sys.executable, "-m", "app", command, *options]
    print("$", " ".join(words), file=sys.stderr, flush=True)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def results(path: Path) -> dict[str, Any]:
    """Returns the `results.json` of a run; without one, no metrics and no seconds."""
    file = path / "results.json"
    found: dict[str, Any] = {"metrics": {}, "seconds": {}}
    return json.loads(file.read_text()) if file.is_file() else found


def fit_and_test(path: Path, fit: Sequence[str], test: Sequence[str]) -> None:
    """Trains and tests a run, as far as that is not done; what was interrupted goes on.

    Args:
        path: of the run.
        fit: options of `fit`.
        test: options of `test`.
    """
    common = ["--runs_dir", str(path.parent), "--run", path.name]
    common += ["--trainer.enable_progress_bar", "false"]
    done = results(path)["seconds"]
    for name, options in (("fit", fit), ("test", test)):
        if name not in done:
            call(name, [*options, *common])


def attack(path: Path, recipes: Collection[str], given: Namespace, *options: str) -> None:
    """Attacks a run with the recipes.

    Args:
        path: of the run.
        recipes: without any, nothing is done.
        given: the command line, with `data_dir` and `num_samples`.
        options: more ones of `attack`.
    """
    if recipes:
        common = ["--runs_dir", str(path.parent), "--run", path.name]
        common += ["--trainer.enable_progress_bar", "false", "--attack", ",".join(recipes)]
        common += ["--attack.num_samples", str(given.num_samples), "--attack.html", "false"]
        call("attack", [*common, "--attack.resources", str(given.data_dir), *options])


def cell(value: float | None, *, scale: float = 100, digits: int = 1) -> str:
    """Returns a figure for a table, in percent unless told otherwise."""
    return NOT_RUN if value is None else f"{scale * value:.{digits}f}"


def print_tables(
    given: Namespace,
    rows: Callable[[str], Iterable[Row]],
    make: Callable[[str, Row], None],
    table: Callable[[str, list[Row]], str],
) -> None:
    """Makes the runs of each group and prints its table; with `--print` it makes none.

    Args:
        given: the command line, with `group`, `only` and `print`.
        rows: of a group.
        make: trains, tests and attacks a row of a group.
        table: of a group.
    """
    for group in given.group:
        found = list(rows(group))
        for row in [] if given.print else found:
            if given.only is None or {row.run, row.title} & set(given.only):
                make(group, row)
        print(f"\n{group}\n\n{table(group, found)}", flush=True)


def built(room: Any, part: Mapping[str, Any], **more: object) -> Any:
    """Returns the object that a part of a configuration describes, without its optimiser.

    Args:
        room: `datamodules` or `lit_modules`.
        part: `class_path` and `init_args`.
        more: arguments that replace those of the part.
    """
    arguments = {k: v for k, v in (part.get("init_args") or {}).items() if k != "optimizer"}
    return getattr(room, part["class_path"].rsplit(".", 1)[-1])(**arguments | more)


def quiet_trainer(**settings: Any) -> pl.Trainer:
    """Returns Lightning's own trainer on the CPU, which prints and keeps nothing."""
    quiet: dict[str, Any] = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
    }
    return pl.Trainer(**quiet | settings)
