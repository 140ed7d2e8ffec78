"""A parser whose errors are one line."""

import argparse
import ast
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import torch
from jsonargparse import Namespace, _core, _subcommands, _typehints, _util
from pytorch_lightning.cli import LightningArgumentParser

from app.cli.command_help import command_help, keep
from app.cli.option_errors import one_line
from datamodules import CORPORA
from lit_modules import METHODS
from text import check_range
from text.module_names import find_class, real_name, stored_name

_CLASS_HELP = re.compile(r"--(?P<owner>[\w.]+)\.help\b")
_LITERAL = re.compile(r"(?P<name>--[\w.+]+)=(?P<value>None|[\[{].*)", re.DOTALL)
_WITH_DEFAULTS = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
_discard: Callable[..., None] = _typehints.discard_init_args_on_class_path_change
_import_path: Callable[[Any], str | None] = _util.get_import_path
_import: Callable[..., Any] = _util.import_object


class Parser(LightningArgumentParser):
    """Short help, and an error in one line, without the usage of the command before it."""

    _help_owner = ""  # `model.adversary` in the command line of a `--model.adversary.help`

    def format_help(self, formatter: argparse.HelpFormatter | None = None) -> str:
        """Return the help of a command with the usual settings of the trainer only."""
        if getattr(self, "_inner_parser", False):
            self.usage = argparse.SUPPRESS  # all settings of the class, again
            # jsonargparse names the settings of a class within a class without the outer one.
            inner = str(self.description).partition("--")[2].partition(".help=")[0]
            outer = Parser._help_owner.removesuffix(inner)
            return re.sub(rf"--(?={inner}\b)", f"--{outer}", str(super().format_help(formatter)))
        if not any(action.dest == "trainer.max_epochs" for action in self._actions):
            return str(super().format_help(formatter))
        name = self.prog.split()[-1]
        text = command_help(self, name, {"model": tuple(METHODS), "data": tuple(CORPORA)})
        keep(name, text)
        return text

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        """Parse arguments; see jsonargparse."""
        if not getattr(self, "_inner_parser", False):
            matches = map(_CLASS_HELP.match, args or ())
            Parser._help_owner = next((match["owner"] for match in matches if match), "")
        # jsonargparse passes a nested setting to another parser as Python's repr, which that one
        # reads as YAML: None would become a text, and a backslash in a list would double.
        if args is not None and len(args) == 1:
            args = [_as_yaml(args[0])]
        return super().parse_args(args, *other, **named)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print the message and end the program with status 2."""
        if not self.exit_on_error:
            super().error(message, ex)
        command = getattr(ex, "subcommand_parser", None) or self
        self.exit(2, one_line(message, command.prog.replace(" [options]", "")))


def keep_own_defaults() -> None:
    """Let a new class of optimiser or scheduler begin with its own defaults.

    A setting of the user that is not a default of the old class stays.
    """
    # jsonargparse copies all settings of the old class that the new one also takes, its defaults
    # included. AdamW's default `weight_decay` of 0.01 would so reach an Adam without weight decay,
    # where it is an L2 penalty.
    _typehints.discard_init_args_on_class_path_change = _discard_defaults


def keep_stored_names() -> None:
    """Let class paths name the modules of a checkout, in a wheel too; see `text.module_names`."""
    replacements = {"get_import_path": _stored_path, "import_object": _import_stored}
    for name, module in list(sys.modules.items()):
        # Each module of jsonargparse that uses a function has it under its own name.
        if name.startswith("jsonargparse."):
            for function in replacements.keys() & vars(module).keys():
                setattr(module, function, replacements[function])


def _stored_path(value: Any) -> str | None:
    path = _import_path(value)
    return None if path is None else stored_name(path)


def _import_stored(name: Any, check_path: bool = True) -> Any:
    if isinstance(name, str) and (real := real_name(name)) != name:
        # A user's package may have the name of one of ours.
        with suppress(ImportError, AttributeError):
            return _import(real, check_path)
    return _import(name, check_path)


def _discard_defaults(parser: Any, previous: Any, value: Any) -> None:
    settings: Any = (previous or {}).get("init_args")
    cls = find_class(previous["class_path"]) if settings else None
    if (
        isinstance(cls, type)
        and issubclass(cls, _WITH_DEFAULTS)
        and (previous["class_path"] != value["class_path"])
    ):
        for name, parameter in inspect.signature(cls).parameters.items():
            if name in settings and settings[name] == parameter.default:
                del settings[name]
    _discard(parser, previous, value)


@contextmanager
def remembered_actions() -> Iterator[None]:
    """Let jsonargparse search for the action of a setting once, not two thousand times.

    Its search reads all actions of a parser, which takes a third of the time of a small command.
    Only for the time of a `parse_args`, in which no parser loses or replaces an action.
    """
    search = _subcommands.find_action_and_subcommand
    results: dict[tuple[Any, ...], Any] = {}

    def find(parser: Any, dest: str, exclude: Any = None) -> Any:
        # By its length: the parser of a class is filled while it is searched. The parser is part
        # of the key, so that it stays in memory, and no other one gets its identity.
        key = (parser, dest, exclude, len(parser._actions))
        if key not in results:
            results[key] = search(parser, dest, exclude)
        return results[key]

    modules: tuple[Any, ...] = (_core, _subcommands)  # each has the function under its own name
    for module in modules:
        module.find_action_and_subcommand = find
    try:
        yield
    finally:
        for module in modules:
            module.find_action_and_subcommand = search


class TrainerHelp(argparse.Action):
    """`--trainer.help`: prints all settings of Lightning's trainer and ends."""

    def __init__(self, option_strings: Any, **_: Any) -> None:
        quiet = argparse.SUPPRESS
        super().__init__(option_strings, dest=quiet, nargs=0, default=quiet, help=quiet)

    def __call__(self, parser: Any, *_: Any) -> None:
        """Print the help and end."""
        formatter = parser._get_formatter()
        for group in parser._action_groups:
            if any(action.dest == "trainer.max_epochs" for action in group._group_actions):
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        print(formatter.format_help())
        parser.exit()


def _as_yaml(argument: Any) -> Any:
    """Return an argument whose value is a Python literal with the same value as YAML."""
    match = _LITERAL.fullmatch(argument) if isinstance(argument, str) else None
    if match is None:
        return argument
    try:
        return f"{match['name']}={json.dumps(ast.literal_eval(match['value']))}"
    except (SyntaxError, TypeError, ValueError):
        return argument  # YAML already


def check_numbers(config: Namespace) -> None:
    """Raise a ValueError for a parsed setting that is infinite or NaN; the message names it."""
    for key, value in config.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float) and not math.isfinite(number):
                name = key.replace(".init_args.", ".").replace(".dict_kwargs.", ".")
                msg = f"got --{name} {number}, expected a finite number"
                raise ValueError(msg)


def check_length(trainer: Namespace) -> None:
    """Raise a ValueError for a fit without a step, which would leave a run without weights."""
    check_range({"--trainer.accumulate_grad_batches": trainer.accumulate_grad_batches}, least=1)
    for name in ("max_epochs", "max_steps"):
        if (number := trainer[name]) is not None and number != -1 and number < 1:
            msg = f"got --trainer.{name}={number}, expected at least 1, or -1 for no limit"
            raise ValueError(msg)
