"""Adds the options of all commands that query an external victim."""

import re
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from app.cli.run_options import add_option, full_names
from attacks.digests import digest
from attacks.task_goals import task_of
from attacks.victims.http_settings import HttpSettings
from measure.named_victims import Dtype, NamedVictim, Outputs, named_victim
from measure.victim_front_end import VictimFrontEnd, put_front_end
from run_files.devices import torch_device
from text import CanonicalForm
from text.web_address import redact


class OneLineParser(ArgumentParser):
    """A parser of the options of a victim, whose errors are one line."""

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        """Parse arguments; see jsonargparse."""
        words = None if args is None else full_names(self.prog.partition(" ")[2], args)
        return super().parse_args(words, *other, **named)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print the message and end the program with status 2."""
        # Only now: it loads Lightning, which commands that train nothing do without.
        from app.cli.parser import one_line

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
    """Add the options that name a victim and its classes.

    Args:
        parser: the parser of a command.
        or_run: True if the command takes `--run NAME` instead of a victim.
        output: help of `--output`.
    """
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
    """Make the victim that the options name.

    Args:
        args: the options.
        out: folder of its files; None: the responses of a service stay in memory.
        batch_size: texts per forward pass; that of the options if None.
        answers: name of the file with the responses of a service; only one process may write it.
        any_task: True to take models other than classifiers as well.
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
    return VictimFrontEnd(**{**options, "canonical": CanonicalForm(**options["canonical"])})


def split_names(option: str | None) -> list[str] | None:
    """Return the parts of an option with commas."""
    return None if option is None else [name.strip() for name in option.split(",")]
