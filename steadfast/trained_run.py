"""Training, runs and files of texts in Python."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import steadfast
from app.commands.inspect import describe
from datamodules.sources.inspection import DataInspection, inspect_files
from datamodules.sources.table_shape import check_encoding, check_separator
from measure.verdict import RunVerdict, judge_run
from run_files.ledger import attack_ledgers
from run_files.program_folder import python_path
from run_files.run_directory import RunDirectory, existing
from run_files.terminal import harmless
from text.extras import extras_named

if TYPE_CHECKING:
    from pandas import DataFrame

    from steadfast.loaded_model import Model
    from steadfast.record_tables import RunAttackTable


class Run:
    """A run on disk, with its figures; `read_run` and `train` make it.

    Attributes:
        name: its name.
        path: its folder.
        metrics: all figures that were measured, by name (docs/cli.md).
    """

    def __init__(self, files: RunDirectory) -> None:
        self._files = files
        self.name, self.path = files.name, files.path
        results = files.results()
        self.metrics: dict[str, float | None] = dict(results["metrics"]) if results else {}
        self.verdict: RunVerdict | None = judge_run(files, results) if results else None

    def __repr__(self) -> str:
        headline = "nothing was measured" if self.verdict is None else self.verdict.headline
        return f"<Run {self.name}: {harmless(headline)}>"

    def _repr_html_(self) -> str:
        figures = () if self.verdict is None else self.verdict.figures
        rows = "".join(
            f"<tr><td>{escape(harmless(figure.title))}</td><td>{figure.text}</td></tr>"
            for figure in figures
        )
        return f"<p>{escape(repr(self))}</p><table><tbody>{rows}</tbody></table>"

    def model(self) -> "Model":
        """Load its model."""
        return steadfast.load(self.path)

    def export(self, folder: str | Path, *, onnx: bool = False) -> Path:
        """Write its model as a folder, as the command `export` does (docs/hub.md).

        Raises:
            ValueError: the folder has other content, or the model cannot be ONNX.
            OSError: it cannot be written.
        """
        from app.hub_folder import write_folder
        from run_files.checkpoint_lookup import evaluated_checkpoint

        write_folder(self._files, evaluated_checkpoint(self._files), Path(folder), onnx=onnx)
        return Path(folder)

    def push_to_hub(
        self, repository: str, *, private: bool = True, revision: str | None = None
    ) -> str:
        """Export its model, upload it to the hub, and return the address.

        Args:
            repository: `OWNER/NAME`; made if it does not exist.
            private: a repository that is made is private.
            revision: branch; the main one if None.

        Raises:
            ValueError: not the name of a repository.
            OSError: the hub cannot be reached, or refuses.
        """
        from app.hub_folder import check_repository, push_folder

        check_repository(repository)
        with tempfile.TemporaryDirectory() as folder:
            return push_folder(
                self.export(Path(folder) / "model"), repository, private=private, revision=revision
            )

    def records(self, *attacks: str) -> "RunAttackTable":
        """Return the records of attacks of the run; of all that have ended, without names.

        Raises:
            ValueError: the run has no such attack, or none at all.
        """
        from attacks.goals import Score
        from attacks.interface import Outcome
        from attacks.outcome import from_line
        from attacks.summary import summarise
        from steadfast.record_tables import RunAttackTable

        ledgers = {ledger.name: ledger for ledger in attack_ledgers(self._files)}
        ended = {name: records for name in ledgers if (records := ledgers[name].records())}
        names = attacks or tuple(ended)
        if not names or (missing := [name for name in names if name not in ended]):
            got = ", ".join(missing) if names else "no attack"
            expected = f"some of {', '.join(ended)}" if ended else "one"
            msg = (
                f"got {got} for run {self.name}, expected {expected}: "
                f"`steadfast attack --run {self.name} --attack NAME` makes them"
            )
            raise ValueError(msg)
        outcomes = []
        for name in names:
            attacked, about = [from_line(line) for line in ended[name]], ledgers[name].subject()
            score: Score = "probability" if about.get("score") == "probability" else "margin"
            summary = summarise(attacked, score=score, goal=about.get("goal"))
            outcomes.append(Outcome(name=name, records=attacked, summary=summary))
        return RunAttackTable(outcomes)

    @extras_named()
    def to_pandas(self) -> "DataFrame":
        """Return the figures of the verdict: name, value, ends of the interval and count."""
        from pandas import DataFrame

        fields = ("name", "title", "value", "low", "high", "count")
        figures = () if self.verdict is None else self.verdict.figures
        rows = [{field: getattr(figure, field) for field in fields} for figure in figures]
        return DataFrame(rows, columns=list(fields))


class Inspection:
    """The content of files of texts and labels; `inspect` makes it.

    Attributes:
        data: columns, labels, lengths, duplicates and likely mistakes of each file.
        problems: reasons why a training would stop.
    """

    def __init__(self, data: DataInspection, settings: dict[str, Any]) -> None:
        self.data, self._settings = data, settings
        self.problems = list(data.problems)

    def __repr__(self) -> str:
        return harmless(describe(self.data, self._settings))


def read_run(name: str | Path, *, runs_dir: str | Path = "runs") -> Run:
    """Read a run by its name or its folder.

    Raises:
        OSError: no such run.
    """
    path = Path(name)
    if (path / "config.yaml").is_file():
        return Run(RunDirectory(path))
    return Run(existing(Path(runs_dir), str(name)))


def train(
    config: str | None = "default",
    data: str | Path | None = None,
    *,
    run: str,
    runs_dir: str | Path = "runs",
    **settings: Any,
) -> Run:
    """Train, test and certify a model, as the command `train` does; the same call resumes.

    Args:
        config: settings file, as `word_scores/sst2`; the recipe `robust`; or None.
        data: file of texts and labels, or name of a corpus; that of the settings if None.
        run: name of the run.
        runs_dir: folder of the runs.
        settings: options of the command, with `__` for a dot: `trainer__max_epochs=3`.

    It runs in a process of its own, whose output is printed here.

    Raises:
        RuntimeError: the command failed; the reason is in its output.
    """
    words = ["train"]
    if config is not None:
        words += ["--recipe" if config == "robust" else "--config", config]
    words += [] if data is None else ["--data", str(data)]
    words += ["--run", run, "--runs_dir", str(runs_dir)]
    for name, value in settings.items():
        words += [f"--{name.replace('__', '.')}", *_words(value)]
    if status := _run(words):
        msg = f"got exit status {status} of `steadfast {' '.join(words)}`, expected 0"
        raise RuntimeError(msg)
    return read_run(run, runs_dir=runs_dir)


def inspect(*files: str | Path, **settings: Any) -> Inspection:
    """Show what is in files of texts and labels, and all problems at once.

    Args:
        files: a file to train on, and those to validate and to test on.
        settings: `text_column`, `text_pair_column`, `label_column`, `task`, `separator` and
            `encoding`, where they cannot be told from the file.

    Raises:
        OSError: a file cannot be read.
    """
    checked = dict(settings)
    checked["separator"] = check_separator(settings.get("separator"))
    checked["encoding"] = check_encoding(settings.get("encoding"))
    return Inspection(inspect_files([Path(file) for file in files], checked), checked)


def _run(words: Sequence[str]) -> int:
    """Run a command, print its output, and return its exit status."""
    command = [sys.executable, "-m", "steadfast", *words]
    # A notebook shows what this process prints, and not what another one does.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path()},
    ) as process:
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            print(line, end="")
    return process.returncode


def _words(value: Any) -> Sequence[str]:
    """Return a value as words of a command line."""
    if isinstance(value, list | tuple):
        return [str(part) for part in value]
    if value is None or isinstance(value, bool):
        return ["null" if value is None else str(value).lower()]
    return [str(value)]
