"""Adds the options of all commands that query an external victim."""

import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from app.cli.parser import plain
from attacks.digests import digest
from attacks.victims.http_settings import HttpSettings
from measure.named_victims import NamedVictim, Outputs, named_victim
from run_files.devices import torch_device
from run_files.terminal import harmless
from text.web_address import redact


class OneLineParser(ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print the message and ends the program with status 2."""
        del ex
        line = f"{plain(message)} (`{self.prog} --help` lists what there is)"
        print(harmless(f"error: {line}"), file=sys.stderr)
        self.exit(2)


def add_victim(parser: ArgumentParser) -> None:
    """Add the options that name a victim and its classes."""
    add = parser.add_argument
    add(
        "--victim",
        required=True,
        help="hf:FOLDER_OR_ID, http:URL, python:MODULE:FUNCTION or run:NAME",
    )
    add(
        "--label_names",
        type=str,
        default=None,
        help="LABEL=CLASS,...: the class of the victim that each label of the data stands for; "
        "A,B is short for 0=A,1=B",
    )
    add("--classes", type=str, default=None, help="A,B: classes of a service or a function")
    add(
        "--outputs",
        type=Outputs,
        default="logits",
        help="what a function returns: logits, probabilities, or labels",
    )
    add("--out", type=str, default=None, help="folder of all files (default: attacked/VICTIM)")
    add("--runs_dir", type=str, default="runs", help="folder of the runs of --victim run:NAME")
    add("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1")
    add("--debug", action="store_true", help="show where an error came from")
    parser.add_class_arguments(HttpSettings, "http")


def folder_of(args: Any) -> Path:
    """Return the folder of all files of a victim, unique for each victim."""
    if args.out is not None:
        return Path(args.out)
    name = redact(args.victim)
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-60:].strip("-.")
    return Path(f"attacked/{text}-{digest([name])[:6]}")


def victim_of(
    args: Any, out: Path, batch_size: int | None = None, *, answers: str = "answers"
) -> NamedVictim:
    """Make the victim that the options name.

    Args:
        args: the options.
        out: folder of its files.
        batch_size: texts per forward pass; that of the options if None.
        answers: name of the file with the responses of a service; only one process may write it.
    """
    return named_victim(
        args.victim,
        classes=split_names(args.classes),
        outputs=args.outputs,
        http=HttpSettings(**args.http.as_dict()),
        cache=out / f"{answers}.jsonl",
        runs_dir=Path(args.runs_dir),
        device=torch_device(args.device),
        batch_size=args.batch_size if batch_size is None else batch_size,
    )


def split_names(option: str | None) -> list[str] | None:
    """Return the parts of an option with commas."""
    return None if option is None else [name.strip() for name in option.split(",")]
