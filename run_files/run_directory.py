"""`runs/NAME/`: all files of one run."""

import datetime
import fcntl
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import yaml

from run_files import atomic
from run_files.results import Results, only_fit
from run_files.results import read as read_results
from run_files.results import write as write_results
from text.bounded_files import DataError, read_text, read_yaml
from text.file_lock import locked
from text.former_settings import renewed

log = logging.getLogger(__name__)

FIGURES = "evaluation-"
"""Prefix of the stage in the name of an event file."""
TRANSFER = "transfer"
"""Folder of the figures of `attack pairs`, in a run: SOURCE/ATTACK.json."""
MEASURED = (
    "certificates.json*",
    "certificates_*.json*",
    "certificates_*.png",
    "printed_*.json*",
    "pgd.jsonl",
    "predictions.json*",
    "detection.json",
    "attacks",
    "functional",
    "measure",
    TRANSFER,
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
"""Environment variable that passes the name of the run to the other processes."""


class RunDirectory:
    """The files of one run.

    `config.yaml` (the settings), `checkpoints/` with `best.ckpt`, `last.ckpt` and `previous.ckpt`,
    TensorBoard's event files, `metrics.csv` and the outcomes of evaluations: `results.json`,
    `certificates.jsonl` and so on. These outcomes are about the chosen checkpoint; outcomes about
    other weights are in `others/`, with a folder for each.
    """

    def __init__(self, path: Path) -> None:
        self.path = path  # its last part is the name of the run
        self.config_path = path / "config.yaml"  # exists from the start of the run
        self.checkpoints = path / "checkpoints"
        self.best = self.checkpoints / "best.ckpt"  # weights with the best validation metric
        self.last = self.checkpoints / "last.ckpt"  # state to resume from
        self.previous = self.checkpoints / "previous.ckpt"  # the state before `last`
        # SHA-256 and path of the checkpoint, if an evaluation has created the run.
        self.source_path = path / "checkpoint.sha256"
        # SHA-256 and path of the checkpoint of another run that the training began with.
        self.start_path = path / "start.sha256"
        self.metrics_path = path / "metrics.csv"  # of the training, step by step
        self.results_path = path / "results.json"  # numbers of the finished stages
        self.backbone = path / "backbone"  # folder of the encoder, for a pre-training run
        self.predictions = path / "predictions.jsonl"  # one per sample
        # False alarms and recall of a detector at many thresholds, on the test split.
        self.detection = path / "detection.json"
        self._lock: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """Name of the run."""
        # A folder in `others/` belongs to the run above it.
        return (self.path.parents[1] if self.path.parent.name == OTHERS else self.path).name

    @property
    def chosen(self) -> Path:
        """The weights to evaluate: the best ones, or the last without a `best.ckpt`."""
        return self.best if self.best.is_file() else self.last

    @property
    def begun(self) -> bool:
        """True if the run exists."""
        return self.config_path.is_file()

    def config(self) -> dict[str, Any]:
        """Return the settings of the run.

        Raises:
            DataError: the file does not hold settings.
        """
        expected = "settings of a run; move the run away"
        content = read_yaml(self.config_path, expected)
        if not isinstance(content, dict):
            msg = f"got {self.config_path} with unreadable content, expected {expected}"
            raise DataError(msg)
        return dict(renewed(content))

    def write_config(self, config: dict[str, Any]) -> None:
        """Store the settings."""
        header = "# Settings of this run, written by it; for a new run: --config THIS --run OTHER\n"
        atomic.write_text(self.config_path, header + yaml.safe_dump(config, sort_keys=False))

    def write_detection(self, points: Sequence[tuple[float, float, float]] | None) -> None:
        """Store false alarms, recall and precision at thresholds; None removes the file."""
        if points is None:
            self.detection.unlink(missing_ok=True)
        else:
            columns = ["false_alarms", "recall", "precision"]
            text = json.dumps({"columns": columns, "points": points})
            atomic.write_text(self.detection, text + "\n")

    def source(self) -> str | None:
        """Return the SHA-256 of the checkpoint if an evaluation has created the run, else None."""
        if not self.source_path.is_file() or any(self.checkpoints.glob("*.ckpt")):
            return None
        return read_text(self.source_path).partition(" ")[0]

    def start(self) -> tuple[str, Path] | None:
        """Return SHA-256 and path of the checkpoint that the training began with; None without."""
        if not self.start_path.is_file():
            return None
        digest, _, path = read_text(self.start_path).partition("  ")
        return digest, Path(path.rstrip("\n"))

    def write_start(self, digest: str, checkpoint: Path) -> None:
        """Store the checkpoint that the training begins with, in the format of `sha256sum`."""
        atomic.write_text(self.start_path, f"{digest}  {checkpoint.absolute()}\n")

    def source_checkpoint(self) -> Path | None:
        """Return the checkpoint of `source`, which may have moved since; None without."""
        if self.source() is None:
            return None
        return Path(read_text(self.source_path).partition("  ")[2].rstrip("\n"))

    def write_source(self, digest: str, checkpoint: Path) -> None:
        """Store the digest in the format of `sha256sum`."""
        atomic.write_text(self.source_path, f"{digest}  {checkpoint.absolute()}\n")

    def apart(self, label: str) -> "RunDirectory":
        """Return the folder of figures about other weights or rows than the run's own."""
        return RunDirectory(self.path / OTHERS / label)

    def measured(self) -> list[Path]:
        """Return the files of evaluations; also `results.json` if it has their figures."""
        files = [path for pattern in MEASURED for path in sorted(self.path.glob(pattern))]
        results = self.results()
        stages = set() if results is None else set(results["seconds"]) - {"fit"}
        return [*files, self.results_path] if stages else files

    def set_aside(self, label: str, *, only: str | None = None) -> None:
        """Move the files of evaluations, or `only` one, to a folder in `others/`.

        The figures of the fit stay. Nothing is ever deleted or overwritten: if the folder exists, a
        number is appended to its name.
        """
        if not self.measured():
            return
        with locked(self.results_path):
            files = [path for path in self.measured() if only in (None, path.name)]
            self._move_apart(label, files)

    def _move_apart(self, label: str, files: list[Path]) -> None:
        """Move files, under the lock of `results.json`."""
        if not files:
            return
        folder, count = self.apart(label).path, 1
        while folder.exists():
            count += 1
            folder = self.apart(f"{label}_{count}").path
        folder.mkdir(parents=True)
        results = self.results() if self.results_path in files else None
        if results is not None:
            # The copy first: after a kill here, a figure is in two files, not in none.
            write_results(folder / self.results_path.name, results)
        for path in files:
            if path != self.results_path:
                path.rename(folder / path.name)
        # Last: `foreign_subjects` reads here that there is something to move.
        if results is not None:
            write_results(self.results_path, only_fit(results))
        log.warning(
            "set aside in %s: %s; they are about other weights or rows than the figures to come",
            folder,
            ", ".join(path.name for path in files if ".tfevents." not in path.name),
        )

    def results(self) -> Results | None:
        """Return the numbers of the finished stages; None if there are none."""
        return read_results(self.results_path)

    def finished(self, stage: str) -> bool:
        """Return True if a stage has ended."""
        results = self.results()
        return results is not None and stage in results["seconds"]

    def lock(self) -> None:
        """Keep other processes from training the same run at the same time.

        Raises:
            ValueError: another process trains or measures it, or the path of the folder is a file.
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
            # The kernel releases the lock of a killed process.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.unlock()
            msg = (
                f"got run {self.name!r} while another process trains or measures it; wait for that "
                "one, or choose another --run"
            )
            raise ValueError(msg) from error
        except OSError:  # a file system without locks
            return
        atomic.sweep(self.checkpoints)
        # Evaluations take no lock: a young file may be theirs.
        for folder in (self.path, self.path / "attacks"):
            atomic.sweep(folder, older_than=600)

    def unlock(self) -> None:
        """Release the lock of the run."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def of_checkpoint(path: Path) -> RunDirectory | None:
    """Return the run to which a checkpoint belongs; None if it is not in a run."""
    run = RunDirectory(path.absolute().parents[1])
    return run if path.parent.name == "checkpoints" and run.begun else None


def named(command: str, name: str | None) -> str:
    """Return the name of the run; an evaluation without a checkpoint needs one.

    Raises:
        ValueError: the name is None.
    """
    if name is None:
        msg = (
            "got neither --run nor --ckpt_path, expected one of them: "
            f"`{command}` is about a trained model"
        )
        raise ValueError(msg)
    return name


def existing(runs: Path, name: str) -> RunDirectory:
    """Return the run of that name.

    Raises:
        FileNotFoundError: there is none; the message names the existing runs.
    """
    run = RunDirectory(runs / name)
    if not run.begun:
        names = sorted(path.parent.name for path in runs.glob("*/config.yaml"))
        advice = f"there are: {', '.join(names)}" if names else "there are no runs"
        msg = f"got run {name!r}, which is not in {runs} ({advice}); train it first"
        raise FileNotFoundError(msg)
    return run


def class_name(settings: Mapping[str, Any], part: str) -> str | None:
    """Return the class of the model or the data in the settings of a run; None if unknown."""
    # The name alone, without an import: a foreign config.yaml must not run code.
    setting = settings.get(part)
    path = setting.get("class_path") if isinstance(setting, Mapping) else setting
    return None if path is None else str(path).rpartition(".")[2]


def fresh_name(runs: Path, method: str, corpus: str) -> str:
    """Return a new name, for example `2026-03-14_15-09-26_OLSA_Reviews`.

    Raises:
        ValueError: `torchrun` or a queue has started several processes, which would choose
            different names.
    """
    # Set by the first process of this run for those that it starts.
    if inherited := os.environ.get(NAME_VARIABLE):
        return inherited
    # Different clocks would give each process a name of its own.
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
