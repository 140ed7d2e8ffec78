"""Declares the options that commands share, each once, and the former names of options."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from run_files.atomic import file_above
from run_files.ledger import NAME
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless


class _Tag:
    """The type of a part of the name of an outcome."""

    def __call__(self, value: str) -> str:
        if not NAME.fullmatch(value):
            msg = f"got {value!r}, expected letters, digits and . _ -"
            raise argparse.ArgumentTypeError(msg)
        return value

    def __repr__(self) -> str:  # for `--help`, where a function shows its address
        return "str"


OPTIONS: dict[str, dict[str, Any]] = {
    "--run": {"metavar": "NAME", "help": "the run (default: that of --ckpt_path)"},
    "--runs_dir": {"default": "runs", "metavar": "DIR", "help": "directory of all runs"},
    "--ckpt_path": {"metavar": "FILE", "help": "the checkpoint (default: best.ckpt of the run)"},
    "--data_dir": {"metavar": "DIR", "help": "data directory (default: that of the run)"},
    "--device": {"default": "auto", "help": "one device: auto, a GPU if any; cpu, cuda, cuda:1"},
    "--num_samples": {"type": int, "metavar": "N", "help": "number of samples (default: all)"},
    "--batch_size": {"type": int, "metavar": "N", "help": "texts in one forward pass"},
    "--seed": {"type": int, "default": 0, "metavar": "N", "help": "seed of the random numbers"},
    "--output": {"metavar": "PATH"},
    "--json": {"action": "store_true", "help": "print JSON on a terminal, too"},
    "--lists": {"metavar": "FILE", "help": "JSON with synonyms (docs/certificates/words.md)"},
    "--resources": {"metavar": "DIR", "help": "folder of resources (docs/attacks/resources.md)"},
    "--sentence_encoder": {"metavar": "NAME", "help": "folder or hub name (default: MiniLM)"},
    "--tag": {
        "type": _Tag(),
        "metavar": "TAG",
        "help": "file it as THREAT-TAG, next to other outcomes",
    },
    "--debug": {"action": "store_true", "help": "show where an error is from (STEADFAST_DEBUG=1)"},
}
"""The arguments of `add_argument`, by the option."""
RUN = ("--run", "--runs_dir", "--ckpt_path")
"""Options that name a checkpoint."""
SEVERAL: dict[str, Any] = {
    "action": "extend",
    "nargs": "+",
    "default": None,
    "help": "names of runs; may be given several times",
}
"""Changes of `--run` for a command about several runs."""
FORMER: dict[str, dict[str, str]] = {
    "": {
        "--out": "--output",
        "--to": "--output",
        "--seed_everything": "--seed",
        "--attack.num_samples": "--num_samples",
        "--attack.seed": "--seed",
        "--model.objective.gamma_schedule": "--model.objective.schedule.shape",
        "--model.robustness.ramp": "--model.robustness.schedule.ramp",
    },
    "attack": {"--seed_everything": "seed_everything in a file of --config, or that of the run,"},
    "attack sheet": {"--texts": "--num_samples"},
    "attack validity": {"--pairs": "--num_samples", "--text": "--running_text"},
    "attention": {"--draw": "--seed"},
    "augment": {"--n": "--copies"},
    "certify": {"--samples": "--draws"},
    "diagnose": {"--samples": "--num_samples"},
}
"""The present names of renamed options by command; those of all commands under ""."""


SETTINGS: dict[str, dict[str, str]] = {
    "": {"--data_dir": "--data.data_dir", "--seed": "--seed_everything"},
    "attack": {
        "--attack": "--attack.recipe",
        "--num_samples": "--attack.num_samples",
        "--seed": "--attack.seed",
    },
    "attack text": {"--attack": "--attack.recipe", "--seed": "--attack.seed"},
    "check": {"--seed": "--seed"},
}
"""Names of settings in YAML, Python and stored runs by their options, as `FORMER` by command."""


class _Defaults(argparse.HelpFormatter):
    """Adds the default of an option to its help, unless the help explains it."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        # `is False`: 0 == False, and a default of 0 is shown.
        none = action.default in (None, [], argparse.SUPPRESS) or action.default is False
        shown = none or "(default" in text or not action.option_strings
        return text if shown else f"{text} (default: %(default)s)"


class CommandParser(argparse.ArgumentParser):
    """A parser of argparse whose errors are one line."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **{"formatter_class": _Defaults, "allow_abbrev": False, **named})

    def error(self, message: str) -> NoReturn:
        """Print the message and end the program with status 2."""
        self.exit(2, harmless(f"error: {message} (`{self.prog} --help` lists the options)") + "\n")


def add_option(parser: argparse.ArgumentParser, option: str, **changes: Any) -> None:
    """Add a shared option, with the arguments of `add_argument` that differ for this command."""
    arguments = {**OPTIONS[option], **changes}
    if "action" not in arguments:
        arguments.setdefault("type", str)  # the parser of jsonargparse would read YAML
    parser.add_argument(option, **arguments)


def command_parser(
    command: str, description: str | None, *options: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Make the parser of a command with shared options, keys of `OPTIONS`, and `--debug`."""
    parser = CommandParser(prog=f"steadfast {command}", description=description, epilog=epilog)
    for option in (*options, "--debug"):
        add_option(parser, option)
    return parser


def find_model(command: str, args: argparse.Namespace) -> tuple[RunDirectory | None, Path]:
    """Return the run and the checkpoint that the options of `RUN` name; see `find_checkpoint`."""
    # Only here: a kept help needs no archives.
    from run_files.checkpoint_lookup import find_checkpoint

    return find_checkpoint(command, Path(args.runs_dir), args.run, args.ckpt_path)


def check_output(output: Path, *inputs: Path | None) -> None:
    """Raise ValueError for an --output that is a folder, below a file, or read by the command."""
    if output.is_dir():
        msg = f"got --output {output}, which is a folder, expected --output FILE"
        raise ValueError(msg)
    if (file := file_above(output)) is not None:
        msg = f"got --output {output}, where {file} is a file, expected a folder"
        raise ValueError(msg)
    for path in inputs:
        if path is not None and path.exists() and output.exists() and path.samefile(output):
            msg = (
                f"got --output {output}, which this command reads, expected another file: its "
                "content would be lost"
            )
            raise ValueError(msg)


def refuse_former(command: str, words: Sequence[str]) -> None:
    """Raise a ValueError for the former name of an option; the message names the present one."""
    names = FORMER[""] | FORMER.get(command, {})
    for option in (word.partition("=")[0] for word in words):
        if option in names:
            msg = f"got {option}, which is {names[option]} now"
            raise ValueError(msg)


def full_names(command: str, words: Sequence[str]) -> list[str]:
    """Replace options by the names of their settings, which the parser of jsonargparse has."""
    names = SETTINGS[""] | SETTINGS.get(command, {})
    parts = (word.partition("=") for word in words)
    return [names.get(option, option) + equals + value for option, equals, value in parts]


def short_name(command: str, setting: str) -> str:
    """Return the option of a setting, for example `--num_samples` of `--attack.num_samples`."""
    names = SETTINGS[""] | SETTINGS.get(command, {})
    return next((option for option, name in names.items() if name == setting), setting)
