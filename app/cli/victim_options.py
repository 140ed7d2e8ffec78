"""Adds the options of all commands that query a model of any kind, and makes that model."""

import re
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from jsonargparse import ArgumentParser

from app.cli.option_errors import one_line
from app.cli.run_options import add_option, full_names
from attacks.digests import digest
from attacks.task_goals import task_of
from attacks.victims.front_end_victim import FrontEndVictim
from attacks.victims.http_settings import HttpSettings
from attacks.victims.kinds import ModuleVictim
from datamodules import CORPORA
from lit_modules import TaskModule
from measure.archive import FolderArchive, run_identity
from measure.measurement import Measured, Measurement
from measure.named_victims import Dtype, NamedVictim, Outputs, named_victim
from measure.runner import run
from measure.victim_front_end import VictimFrontEnd, put_front_end
from run_files.devices import torch_device
from run_files.run_directory import RunDirectory, class_name
from run_files.weights import weights_of
from text import CanonicalForm
from text.web_address import redact


class OneLineParser(ArgumentParser):
    """A parser of the options of a victim, whose errors are one line."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **named})

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        """Parse arguments; see jsonargparse."""
        words = None if args is None else full_names(self.prog.partition(" ")[2], args)
        return super().parse_args(words, *other, **named)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print the message and end the program with status 2."""
        del ex
        self.exit(2, one_line(message, self.prog))


class RunOrVictimParser(OneLineParser):
    """A parser of `--run NAME` or `--victim NAME`, of which one is required."""

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        """Parse arguments; the victim of a run is `run:NAME`."""
        options = super().parse_args(args, *other, **named)
        if (options.run is None) == (options.victim is None):
            self.error("expected a model: --run NAME, or --victim NAME")
        if options.run is not None:
            options.victim = f"run:{options.run}"
        return options


def add_victim(
    parser: ArgumentParser,
    *,
    or_run: bool = False,
    output: str = "folder of all files (default: attacked/VICTIM)",
) -> None:
    """Add the options that name a victim, or a run, and its classes; `output` is a help."""
    add = parser.add_argument
    text = "hf:FOLDER_OR_ID, http:URL, python:MODULE:FUNCTION, or run:NAME in --runs_dir"
    add("--victim", type=str, required=not or_run, help=f"the model: {text}")
    if or_run:
        add_option(parser, "--run", help="the model: the best checkpoint of a run")
    text = "LABEL=CLASS,...: class of the victim for each label of the data; A,B for 0=A,1=B"
    add("--label_names", type=str, help=text)
    add("--classes", type=str, help="A,B: classes of a service or a function")
    text = "what a function returns: logits, probabilities, or labels"
    add("--outputs", type=Outputs, default="logits", help=text)
    text = "numbers that an hf: model computes with (default: those of its file)"
    add("--dtype", type=Dtype | None, default=None, help=text)
    add_option(parser, "--output", help=output)
    for option in ("--runs_dir", "--device", "--debug"):
        add_option(parser, option)
    parser.add_class_arguments(HttpSettings, "http")
    parser.add_class_arguments(VictimFrontEnd, "words")


def add_columns(parser: ArgumentParser) -> None:
    """Add the options that name the columns of a table."""
    parser.add_argument("--columns", type=str, help="TEXT or TEXT,TEXT (default: usual names)")
    parser.add_argument("--label", type=str, help="column of the label (default: usual names)")


def folder_of(args: Any) -> Path:
    """Return the folder of all files of a victim, unique for each victim."""
    if args.output is not None:
        return Path(args.output)
    name = redact(args.victim)
    words = [] if args.words.front_end == "none" else [str(_words(args))]
    words += [] if args.dtype is None else [args.dtype]
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-60:].strip("-.")
    return Path(f"attacked/{text}-{digest([name, *words])[:6]}")


def victim_of(
    args: Any,
    out: Path | None,
    batch_size: int | None = None,
    *,
    answers: str = "answers",
    any_task: bool = False,
) -> NamedVictim:
    """Make the victim that the options name; with `any_task` also models of other tasks.

    The responses of a service are in a file `answers` of the folder `out`, which only one process
    may write; in memory if that is None.
    """
    named = named_victim(
        args.victim,
        classes=split_names(args.classes),
        outputs=args.outputs,
        http=HttpSettings(**args.http.as_dict()),
        cache=None if out is None else out / f"{answers}.jsonl",
        runs_dir=Path(args.runs_dir),
        device=torch_device(args.device),
        dtype=args.dtype,
        batch_size=args.batch_size if batch_size is None else batch_size,
        any_task=any_task,
    )
    task = task_of(named.victim)
    if args.words.front_end != "none" and task != "classification":
        msg = f"got --words.front_end for a model of {task}, expected it only with a classifier"
        raise ValueError(msg)
    return put_front_end(named, _words(args), Path(args.runs_dir))


def _words(args: Any) -> VictimFrontEnd:
    options = args.words.as_dict()
    return VictimFrontEnd(**options | {"canonical": CanonicalForm(**options["canonical"])})


def split_names(option: str | None) -> list[str] | None:
    """Return the parts of an option with commas."""
    return None if option is None else [name.strip() for name in option.split(",")]


# The model as the subject of a measurement


class MeasuredModel(NamedTuple):
    """A model with the folder of its outcomes: the run, or the folder of a victim."""

    named: NamedVictim
    files: RunDirectory
    # Weights of a run, or name and front end of a victim: a part of the subject.
    about: dict[str, Any]
    # Entries of `results.json` that identify it; a victim has no corpus of its own.
    identity: dict[str, Any]
    module: TaskModule | None  # None of a victim

    def measure(self, measurement: Measurement[Any], data: str) -> Measured:
        """Measure the model on data of this name, and file the outcome."""
        # A training would replace the weights during the measurement.
        if self.module is not None:
            self.files.lock()
        try:
            return run(measurement, FolderArchive(self.files, {"corpus": data, **self.identity}))
        finally:
            self.files.unlock()


def measured_model(args: Any) -> MeasuredModel:
    """Load the model that the options of `add_victim` name; refuse a front end before a run."""
    files = RunDirectory(folder_of(args) if args.run is None else Path(args.runs_dir) / args.run)
    named = victim_of(args, files.path)
    name = named.facts["victim"]
    if args.run is None:
        front_end = named.victim.digest if isinstance(named.victim, FrontEndVictim) else None
        about = {"victim": name, "front_end": front_end, "dtype": named.facts.get("dtype")}
        identity: dict[str, Any] = {"run": files.name, "method": name, "seed": 0}
        return MeasuredModel(named, files, about, identity, None)
    module = named.victim.module if isinstance(named.victim, ModuleVictim) else None
    if not isinstance(module, TaskModule):
        msg = (
            f"got --words.front_end and --run {files.name}, expected one of the two: the figures "
            f"of a run are its own; --victim run:{files.name} has a folder for others"
        )
        raise ValueError(msg)
    about = weights_of(Path(named.facts["checkpoint"])).about()
    return MeasuredModel(named, files, about, _identity(module, files), module)


def _identity(module: TaskModule, run: RunDirectory) -> dict[str, Any]:
    """Return the entries of `results.json` that identify a run."""
    if (results := run.results()) is not None:
        keys = ("run", "method", "corpus", "seed", "no_certificate")
        return {key: results.get(key) for key in keys if key in results}
    data = class_name(run.config(), "data") or ""
    return run_identity(run, module, CORPORA[data].corpus if data in CORPORA else data)
