"""Declares the options that commands share, each once, and the former names of options."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from run_files.terminal import harmless

OPTIONS: dict[str, dict[str, Any]] = {
    "--run": {"metavar": "NAME", "help": "the run (default: that of --ckpt_path)"},
    "--runs_dir": {
        "default": "runs",
        "metavar": "DIR",
        "help": "directory of all runs (default: runs)",
    },
    "--ckpt_path": {"metavar": "FILE", "help": "the checkpoint (default: best.ckpt of the run)"},
    "--data_dir": {"metavar": "DIR", "help": "data directory (default: that of the run)"},
    "--device": {
        "default": "auto",
        "help": "one device: auto (default: a GPU if there is one), cpu, cuda, cuda:1",
    },
    "--num_samples": {"type": int, "metavar": "N", "help": "number of samples (default: all)"},
    "--seed": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": "seed of the random numbers (default: 0)",
    },
    "--output": {"metavar": "PATH"},
    "--debug": {
        "action": "store_true",
        "help": "show where an error came from (also: STEADFAST_DEBUG=1)",
    },
}
"""The arguments of `add_argument`, by the option."""
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
}
"""Names of settings in YAML, Python and stored runs by their options, as `FORMER` by command."""


class CommandParser(argparse.ArgumentParser):
    """A parser of argparse whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the message and end the program with status 2."""
        self.exit(2, harmless(f"error: {message} (`{self.prog} --help` lists the options)") + "\n")


def add_option(parser: argparse.ArgumentParser, option: str, **changes: Any) -> None:
    """Add a shared option.

    Args:
        parser: the parser of a command.
        option: its name, for example `--output`.
        changes: arguments of `add_argument` that differ for this command.
    """
    arguments = {**OPTIONS[option], **changes}
    if "action" not in arguments:
        arguments.setdefault("type", str)  # the parser of jsonargparse would read YAML
    parser.add_argument(option, **arguments)


def command_parser(
    command: str, description: str | None, *, epilog: str | None = None, runs: bool = True
) -> argparse.ArgumentParser:
    """Make a parser with `--debug`, and with `--runs_dir` for a command that reads runs.

    Args:
        command: name of the command.
        description: the docstring of its module.
        epilog: the end of `--help`.
        runs: False for a command that reads no runs.
    """
    parser = CommandParser(
        prog=f"steadfast {command}", description=description, epilog=epilog, allow_abbrev=False
    )
    for option in ("--runs_dir", "--debug") if runs else ("--debug",):
        add_option(parser, option)
    return parser


def run_parser(
    command: str, description: str | None, *, device: bool = True, several: bool = False
) -> argparse.ArgumentParser:
    """Make a parser with the options that name a run, a checkpoint and a device.

    Args:
        command: name of the command.
        description: the docstring of its module.
        device: False for a command that computes nothing.
        several: True for a command about several runs; `run` is a list then.
    """
    parser = command_parser(command, description)
    add_option(parser, "--run", **(SEVERAL if several else {}))
    for option in ("--ckpt_path", "--device") if device else ("--ckpt_path",):
        add_option(parser, option)
    return parser


def refuse_former(command: str, words: Sequence[str]) -> None:
    """Refuse the former names of options.

    Raises:
        ValueError: the message names the present one.
    """
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
