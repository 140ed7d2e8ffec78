"""`runs/NAME/`: all files of one run."""

import datetime
import fcntl
import logging
import os
from pathlib import Path
from typing import IO, Any

import yaml

from run_files import atomic
from run_files.results import Results, Stage, only_fit
from run_files.results import read as read_results
from run_files.results import write as write_results
from text.bounded_files import DataError, read_text, read_yaml
from text.file_lock import locked

log = logging.getLogger(__name__)

FIGURES = "evaluation-"
"""In the name of an event file, before the stage whose figures it shows."""
MEASURED = (
    "certificates.json*",
    "certificates_*.json*",
    "certificates_*.png",
    "printed_*.json*",
    "pgd.jsonl",
    "predictions.jsonl",
    "attacks",
    "diagnostics.json",
    "layer_similarity.png",
    "attention.png",
    f"events.out.tfevents.*.{FIGURES}*",
    "report",
    "report_with_*",
)
"""Files of evaluations, besides `results.json`."""
OTHERS = "others"
"""Folder, inside a run, of figures about other weights or rows; not a valid name of a run."""
NAME_VARIABLE = "STEADFAST_RUN_NAME"
"""Environment variable that gives the name of the run to the other processes."""


class RunDirectory:
    """The files of one run.

    `config.yaml` (the settings), `checkpoints/` with `best.ckpt`, `last.ckpt` and `previous.ckpt`,
    TensorBoard's event files, `metrics.csv` and what was measured: `results.json`,
    `certificates.jsonl` and the like. All that was measured is about the chosen checkpoint; what is
    about other weights lies in `others/`, a folder for each.

    Args:
        path: the directory; its last part is the name of the run.

    Attributes:
        config_path: the settings of the run; there as soon as the run has begun.
        checkpoints: directory of the checkpoints.
        best: weights with the best validation metric.
        last: state to go on from.
        previous: the state before `last`.
        source_path: of a run that an evaluation has begun: SHA-256 and place of the checkpoint.
        metrics_path: metrics of the training, step by step.
        results_path: numbers of the finished stages.
        backbone: folder of the encoder that a pre-training run has trained.
        predictions: one prediction per sample.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.yaml"
        self.checkpoints = path / "checkpoints"
        self.best = self.checkpoints / "best.ckpt"
        self.last = self.checkpoints / "last.ckpt"
        self.previous = self.checkpoints / "previous.ckpt"
        self.source_path = path / "checkpoint.sha256"
        self.metrics_path = path / "metrics.csv"
        self.results_path = path / "results.json"
        self.backbone = path / "backbone"
        self.predictions = path / "predictions.jsonl"
        self._lock: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """Name of the run."""
        return (self.path.parents[1] if self.path.parent.name == OTHERS else self.path).name

    @property
    def chosen(self) -> Path:
        """The weights to evaluate: the best ones, or the last where none were chosen."""
        return self.best if self.best.is_file() else self.last

    @property
    def begun(self) -> bool:
        """True if the run exists."""
        return self.config_path.is_file()

    def config(self) -> dict[str, Any]:
        """The settings of the run.

        Raises:
            DataError: the file does not hold settings.
        """
        expected = "settings of a run; move the run away"
        content = read_yaml(self.config_path, expected)
        if not isinstance(content, dict):
            msg = f"got {self.config_path} with unreadable content, expected {expected}"
            raise DataError(msg)
        return content

    def write_config(self, config: dict[str, Any]) -> None:
        """Store the settings."""
        header = "# Settings of this run, written by it; for a new run: --config THIS --run OTHER\n"
        atomic.write_text(self.config_path, header + yaml.safe_dump(config, sort_keys=False))

    def source(self) -> str | None:
        """SHA-256 of the checkpoint that the run was begun with by an evaluation, if it was."""
        if not self.source_path.is_file() or any(self.checkpoints.glob("*.ckpt")):
            return None
        return read_text(self.source_path).partition(" ")[0]

    def write_source(self, digest: str, checkpoint: Path) -> None:
        """Store it, as `sha256sum` does."""
        atomic.write_text(self.source_path, f"{digest}  {checkpoint.absolute()}\n")

    def apart(self, label: str) -> "RunDirectory":
        """Folder of figures about other weights or rows than the run's own."""
        return RunDirectory(self.path / OTHERS / label)

    def measured(self) -> list[Path]:
        """The files of evaluations; also `results.json` if it holds their figures."""
        found = [path for pattern in MEASURED for path in sorted(self.path.glob(pattern))]
        results = self.results()
        stages = set() if results is None else set(results["seconds"]) - {"fit"}
        return [*found, self.results_path] if stages else found

    def set_aside(self, label: str, *, only: str | None = None) -> None:
        """Move all of that into a folder of its own; what `results.json` says of the fit stays.

        Nothing is ever deleted or overwritten.

        Args:
            label: of the folder; a number follows where there is one of that name.
            only: the file that is moved; all if not given.
        """
        if not self.measured():
            return
        with locked(self.results_path):
            self._move_apart(label, [one for one in self.measured() if only in (None, one.name)])

    def _move_apart(self, label: str, found: list[Path]) -> None:
        """Move files, under the lock of `results.json`."""
        if not found:
            return
        folder, count = self.apart(label).path, 1
        while folder.exists():
            count += 1
            folder = self.apart(f"{label}_{count}").path
        folder.mkdir(parents=True)
        results = self.results()
        if results is not None and self.results_path in found:
            # The copy first: who is killed here has a figure in two places, not in none.
            write_results(folder / self.results_path.name, results)
            write_results(self.results_path, only_fit(results))
        for path in found:
            if path != self.results_path:
                path.rename(folder / path.name)
        log.warning(
            "set aside in %s: %s, measured otherwise than what is filed from here on",
            folder,
            ", ".join(path.name for path in found if ".tfevents." not in path.name),
        )

    def results(self) -> Results | None:
        """Numbers of the finished stages, or None if there are none."""
        return read_results(self.results_path)

    def finished(self, stage: Stage) -> bool:
        """True if a stage has ended."""
        found = self.results()
        return found is not None and stage in found["seconds"]

    def lock(self) -> None:
        """Keep other processes from training the same run at the same time.

        Raises:
            ValueError: one does, or a file has the place of the folder.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            file = next(p for p in (self.path, *self.path.parents) if p.is_file())
            msg = (
                f"got run {self.name!r} in {self.path}, but {file} is a file, expected a folder; "
                "choose another --run or --runs_dir"
            )
            raise ValueError(msg) from error
        self._lock = (self.path / ".lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.unlock()
            msg = (
                f"got run {self.name!r} while another process trains it; wait for that one, or "
                "choose another --run"
            )
            raise ValueError(msg) from error
        except OSError:  # a file system without locks
            return
        atomic.sweep(self.checkpoints)
        # Evaluations take no lock: what is young may be theirs.
        atomic.sweep(self.path, older_than=600)

    def unlock(self) -> None:
        """Release the lock of the run."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def of_checkpoint(path: Path) -> RunDirectory | None:
    """The run to which a checkpoint belongs, if it lies in one."""
    run = RunDirectory(path.absolute().parents[1])
    return run if path.parent.name == "checkpoints" and run.begun else None


def named(command: str, name: str | None) -> str:
    """The name of the run, which an evaluation without checkpoint has to give.

    Raises:
        ValueError: it gives none.
    """
    if name is None:
        msg = (
            "got neither --run nor --ckpt_path, expected one of them: "
            f"`{command}` is about a trained model"
        )
        raise ValueError(msg)
    return name


def existing(runs: Path, name: str) -> RunDirectory:
    """The run of that name.

    Raises:
        FileNotFoundError: there is none; the message names those there are.
    """
    run = RunDirectory(runs / name)
    if not run.begun:
        found = sorted(path.parent.name for path in runs.glob("*/config.yaml"))
        there = f"there are: {', '.join(found)}" if found else "there are no runs"
        msg = f"got run {name!r}, which is not in {runs} ({there}); train it first"
        raise FileNotFoundError(msg)
    return run


def fresh_name(runs: Path, method: str, corpus: str) -> str:
    """A new name, for example `2026-03-14_15-09-26_OLSA_Reviews`.

    Processes that this one starts find the name in the environment.

    Raises:
        ValueError: something else (`torchrun`, a queue) has started several processes, which could
            not agree on a name.
    """
    given = os.environ.get(NAME_VARIABLE)
    if given:
        return given
    counts = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
    several = any(int(os.environ.get(count, "1")) > 1 for count in counts)
    if several or os.environ.get("NODE_RANK", "0") != "0":
        msg = "got several processes and no name for the run; give one: --run NAME"
        raise ValueError(msg)
    now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S")
    stem = name = f"{now}_{method}_{corpus}"
    count = 1
    while (runs / name).exists():
        count += 1
        name = f"{stem}_{count}"
    return name
