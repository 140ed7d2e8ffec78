"""A parser whose errors are one line."""

import argparse
import ast
import difflib
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
from app.cli.commands import chooser
from app.cli.run_options import short_name
from datamodules import CORPORA
from lit_modules import METHODS
from lit_modules.shared.settings import names
from measure.radii import RADII_RULE
from run_files.terminal import harmless
from text.module_names import find_class, real_name, stored_name

_LITERAL = re.compile(r"(?P<name>--[\w.+]+)=(?P<value>None|[\[{].*)", re.DOTALL)
_KEY = re.compile(r'Parser key "(?P<key>.+?)":')
_CLASS = re.compile(r"Problem with given class_path '(?P<path>.+)':")
_WANTED = re.compile(r"Expected an? (?P<type>.+?)(?:\. Got value: (?P<value>.*))?")
_GIVEN = re.compile(r"Given value:(?: (?P<value>.*))?")
_REQUIRED = re.compile(r".*following arguments are required: (?P<names>.+)")
_OBJECT = re.compile(r"Namespace\(class_path='(?P<path>.+?)'.*")
_OPTION = re.compile(
    r"Option '(?P<name>.+)' is not accepted|"
    r"(?:unrecognized arguments|ambiguous option): --(?P<nested>[\w.]+).*"
)
_RESTRICTED = re.compile(
    r"Not of type (?P<type>\w+): (?:(?P<value>.+) does not conform to restriction |"
    r"does not match regular expression )?(?P<rule>.*)"
)
_NESTED = re.compile(r"NestedArg\(key='(?P<key>.+?)', val='?(?P<value>.*?)'?\)")
_RULES = {
    "RunName": "letters, digits and . _ @ + = -, a letter or a digit first",
    "radii": RADII_RULE,
}
"""Rules in words, instead of a type's regular expression, or of the type of a setting."""
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<option>--?[\w.]*)")
_SETTING = re.compile(r"--[\w.]+")
_PLAIN = {"float": "a number", "int": "a whole number", "bool": "true or false", "str": "a text"}
_PLAIN |= {"list": "a list", "Iterable": "a list"}
_CALLABLE = re.compile(r"Type .+? expects a function or a callable class: (?=Parser key |Option )")
"""The beginning of jsonargparse's errors about settings of optimisers and schedulers."""
_BUILT = re.compile(r"\. Got value: Namespace\((?:class_path='(?P<path>.+?)')?.*\)$")
_FORMS = {"path but ": "a file", "dot import path string": "a class, such as package.module.Name"}
"""Forms of an object; of a tensor, too, where a number will do: left out of messages there."""
_FRAME = ("Does not validate against", "Subtypes: ", "Errors:", "Given value type: ")


_WITH_DEFAULTS = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
_discard: Callable[..., None] = _typehints.discard_init_args_on_class_path_change
_import_path: Callable[[Any], str | None] = _util.get_import_path
_import: Callable[..., Any] = _util.import_object


class Parser(LightningArgumentParser):
    """Short help, and an error in one line, without the usage of the command before it."""

    def format_help(self, formatter: argparse.HelpFormatter | None = None) -> str:
        """Return the help of a command with the usual settings of the trainer only."""
        if not any(action.dest == "trainer.max_epochs" for action in self._actions):
            return str(super().format_help(formatter))
        name = self.prog.split()[-1]
        text = command_help(self, name, {"model": tuple(METHODS), "data": tuple(CORPORA)})
        keep(name, text)
        return text

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        """Parse arguments; see jsonargparse."""
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


def one_line(message: str, prog: str) -> str:
    """Return the line of an error of jsonargparse in a command, `prog`; see `plain`."""
    name = prog.partition(" ")[2]
    match = _UNKNOWN.match(message)
    if match is not None and (options := chooser(name, match["option"])) is not None:
        text = f"got {match['option']} without {options}, expected both"
    else:
        text = _SETTING.sub(lambda setting: short_name(name, setting[0]), plain(message))
    return harmless(f"error: {text} (`{prog} --help` lists the options)") + "\n"


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


def plain(message: str) -> str:
    """Shorten an error of jsonargparse 4 about a setting to one line; join lines of other errors.

    For example `got --model.masking.tau nan, expected a number`.
    """
    # The lines go from a setting to the nested one that is wrong. The last ones have the expected
    # type, or an unknown name.
    keys: list[str] = []
    expectations: list[str] = []
    reasons: list[str] = []
    owner, required, value = "", "", None
    for line in message.splitlines():
        text = _CALLABLE.sub("", _BUILT.sub("", line.strip().removeprefix("- ")))
        owner = ((match := _BUILT.search(line)) and match["path"]) or owner
        if match := _KEY.match(text):
            keys.append(match["key"].removeprefix("init_args."))
            text = text[match.end() :].strip()
        if match := _CLASS.fullmatch(text):
            owner = match["path"]
        elif (match := _OPTION.fullmatch(text)) and owner:
            group, name = ".".join(keys), match["name"] or match["nested"]
            cls = owner.rpartition(".")[2]
            lacks = f"got --{group}.{name}, which {cls} does not have{_nearest(owner, group, name)}"
            return f"{lacks}; --{group}.help {cls} lists its settings"
        elif forms := [_FORMS[words] for words in _FORMS if text.startswith(f"Expected a {words}")]:
            expectations += forms
        elif match := _WANTED.fullmatch(text):
            expectations.append(_name(match["type"]))
            value = match["value"] or value
        elif match := _GIVEN.fullmatch(text):
            value = match["value"] or "''" if value is None else value
        elif match := _RESTRICTED.fullmatch(text):
            expectations.append(f"{match['type']} ({_RULES.get(match['type'], match['rule'])})")
            value = match["value"] or value
        elif match := _REQUIRED.fullmatch(text):
            required = match["names"]
        elif text and not text.startswith(_FRAME):
            reasons.append(text)
    if keys and value is not None and required and (match := _OBJECT.fullmatch(value)):
        key, name = ".".join(keys), match["path"].rsplit(".", 1)[-1]
        first = required.split(",")[0].strip()
        return f"got --{key} {name} without {required}, expected --{key}.{first} as well"
    if not keys or value is None:
        return " ".join(message.split())
    outermost = [match["key"] for match in _NESTED.finditer(message)][-1:]
    name = ".".join([keys[0], *outermost] if _NESTED.fullmatch(value) else keys)
    value = _NESTED.sub(r"\g<value>", value)
    left_out = {"NoneType", *(_FORMS.values() if "a number" in expectations else ())}
    expected = " or ".join(name for name in dict.fromkeys(expectations) if name not in left_out)
    expected = _RULES.get(keys[-1], expected)
    reason = f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else ""
    return f"got --{name} {value}{reason}{expected and f', expected {expected}'}"


def _nearest(path: str, group: str, name: str) -> str:
    """Return a hint at the setting of a class with the most similar name, in any of its groups."""
    module, _, cls = path.rpartition(".")
    options = list(names(getattr(sys.modules.get(real_name(module)), cls, object)))
    # Each class of optimisers has settings of its own, and all have a learning rate.
    options = [f"{option}.lr" for option in options if option.endswith("optimizer")] + options
    by_last_part = {option.rpartition(".")[2]: option for option in options}
    for part in reversed(name.split(".")):
        matches = difflib.get_close_matches(part, by_last_part, n=1, cutoff=0.75)
        if matches and not name.startswith(f"{(near := by_last_part[matches[0]])}."):
            return f", expected perhaps --{group}.{near}"
    return ""


def _name(kind: str) -> str:
    """Return a type in plain words."""
    if kind.startswith("typing.Literal["):
        choices = kind.removeprefix("typing.Literal[").removesuffix("]").split(", ")
        return f"one of {', '.join(choice.strip(chr(39)) for choice in choices)}"
    name = re.sub(r"<class '(?:.*\.)?(.+?)'>", r"\1", kind)
    return _PLAIN.get(name, name)
