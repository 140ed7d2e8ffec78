"""Runs of the program that benchmarks make, their results, and tables of them."""

import json
import subprocess
import sys
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl

from benchmarks.command import table
from lit_modules.shared.settings import plain, rebuilt

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


def make(
    path: Path,
    command: str,
    options: Sequence[str],
    *,
    stage: str | None = None,
    again: bool = False,
) -> None:
    """Runs one command on a run unless its stage is finished; what was interrupted goes on.

    Args:
        path: of the run.
        command: of the program.
        options: of the command; those that name the run are added.
        stage: last one of the command; that of the same name if None.
        again: run it in any case.
    """
    if again or (stage or command) not in results(path)["seconds"]:
        names = ["--runs_dir", str(path.parent), "--run", path.name]
        call(command, [*options, *names, "--trainer.enable_progress_bar", "false"])


class RunTables(ABC):
    """Tables whose rows are runs; a subclass names the rows, makes the runs and fills the cells.

    Args:
        given: the command line, with `runs_dir`, `group`, `only` and `print`.
    """

    def __init__(self, given: Namespace) -> None:
        self.given = given

    @abstractmethod
    def rows(self, group: str) -> Iterable[Row]:
        """Returns the rows of a group."""

    @abstractmethod
    def make(self, group: str, row: Row) -> None:
        """Trains, tests and attacks a row of a group, as far as that is not done."""

    @abstractmethod
    def head(self, group: str) -> Sequence[str]:
        """Returns the titles of the columns."""

    @abstractmethod
    def cells(self, group: str, row: Row) -> Sequence[str]:
        """Returns the cells of a row after its title, from what is finished."""

    def path(self, row: Row) -> Path:
        """Returns the directory of a run."""
        return Path(self.given.runs_dir / row.run)

    def metric(self, row: Row, *names: str, scale: float = 100) -> float | None:
        """Returns the first of these metrics that a run has, in percent by default."""
        metrics = results(self.path(row))["metrics"]
        return next((scale * metrics[name] for name in names if name in metrics), None)

    def attack(self, row: Row, recipes: Sequence[str], options: Sequence[str]) -> None:
        """Attacks a run with recipes; without any, it does nothing."""
        if recipes:
            words = ["--attack", ",".join(recipes), "--attack.html", "false", *options]
            words += ["--attack.num_samples", str(self.given.num_samples)]
            words += ["--attack.resources", str(self.given.data_dir)]
            make(self.path(row), "attack", words, again=True)

    def show(self) -> None:
        """Makes the runs of each group and prints its table; with `--print` it makes none."""
        given = self.given
        for group in given.group:
            rows = list(self.rows(group))
            for row in [] if given.print else rows:
                if given.only is None or {row.run, row.title} & {*given.only}:
                    self.make(group, row)
            lines = [[row.title, *self.cells(group, row)] for row in rows]
            print(f"\n{group}\n\n{table(self.head(group), lines)}", flush=True)


def cell(value: float | None, digits: int = 1) -> str:
    """Returns a figure for a table."""
    return NOT_RUN if value is None else f"{value:.{digits}f}"


def built(room: Any, part: Mapping[str, Any], **more: object) -> Any:
    """Returns the object that a part of a configuration describes, with the default optimiser.

    Args:
        room: `datamodules` or `lit_modules`.
        part: `class_path` and `init_args`.
        more: arguments that replace those of the part.
    """
    cls = getattr(room, part["class_path"].rsplit(".", 1)[-1])
    return cls(**rebuilt(cls, plain(part.get("init_args") or {})) | more)


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
