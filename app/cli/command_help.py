"""Builds the help of a command of LightningCLI: the most used settings, and its second way.

The parser takes seconds to build. So the text stays in the cache folder until a file or a library
of the program changes.
"""

import argparse
import hashlib
import os
import re
import shutil
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from app.cli.commands import COMMANDS, Command, module_of
from app.cli.run_options import add_option, short_name
from run_files.atomic import replacing
from run_files.program_folder import PROGRAM
from text.module_names import PACKAGES

TRAINER = {
    "max_epochs": "",
    "max_steps": "Stop training after this number of optimiser steps; -1: no limit.",
    "accelerator": "Device: cpu, gpu or auto, a GPU if there is one.",
    "devices": "Number of devices, or auto: all of them.",
    "precision": "32-true, bf16-mixed, 16-mixed or 64-true.",
    "gradient_clip_val": "Largest norm of the gradient; null: no clipping.",
    "accumulate_grad_batches": "Batches for one step of the optimiser.",
    "limit_train_batches": "Share (0.1) or number (10) of the training batches.",
    "limit_val_batches": "The same for validation.",
    "limit_test_batches": "The same for the texts of an evaluation.",
    "enable_progress_bar": "A progress bar on the terminal.",
}
"""Settings of Lightning's trainer in the short help; empty to use Lightning's own text."""
_EVALUATION = ("accelerator", "devices", "precision", "limit_test_batches", "enable_progress_bar")
_SHORT = {f"trainer.{key}": text for key, text in TRAINER.items()} | {
    "seed_everything": "Seed of all random numbers; true: a random seed.",
    "help": "Print this and end.",
    "print_config": "Print all settings as YAML and end; skip_default: those that differ.",
}
_PROGRAM = ("help", "config", "print_config", "debug")
_RUN = ("run", "runs_dir", "seed_everything", "ckpt_path")
_FIT = ("checkpoint", "early_stopping", "checkpoint_every_n_minutes", "on_nonfinite_loss")
_TRACK = ("track",)
_LIBRARIES = ("jsonargparse", "pytorch-lightning", "torch")
_SHARED = ("help", "debug", "run", "runs_dir", "ckpt_path", "device", "data_dir")
"""Options of both ways of a command."""
_WIDTH = 100


def command_help(
    parser: argparse.ArgumentParser, name: str, choices: Mapping[str, Sequence[str]]
) -> str:
    """Return the help of a command, with both of its ways if it has two.

    `choices` are the names of classes by the setting that takes one: `model` and `data`.
    """
    actions = {action.dest: action for action in parser._actions}
    training, way = name in ("train", "fit"), COMMANDS[name].way
    usage = ["--config FILE", "--run NAME", *(["--model NAME --data NAME"] if training else [])]
    usage += [] if way is None else ["|".join(way.chosen_by)]
    out = argparse.ArgumentParser(
        prog=f"steadfast {name}",
        usage="\n       ".join(f"steadfast {name} {first} [settings]" for first in usage),
        description=f"{COMMANDS[name].summary} docs/cli.md has examples.",
        formatter_class=lambda prog: argparse.HelpFormatter(
            prog, width=min(shutil.get_terminal_size().columns, _WIDTH), max_help_position=32
        ),
        add_help=False,
    )
    parts = out.add_argument_group("what is trained, and on what")
    text = "Settings from a YAML file; later words win."
    parts.add_argument("-c", "--config", metavar="FILE", help=text)
    for key, names in choices.items():
        text = f"One of {', '.join(names)}, or the import path of a class of yours."
        parts.add_argument(f"--{key}", metavar="NAME", help=text)
        text = "Print the settings of one of them and end."
        parts.add_argument(f"--{key}.help", metavar="NAME", help=text)
    # `--seed` of an attack is that of its replacements.
    run = _of(_RUN, actions, without=("seed_everything",) if name == "attack" else ())
    shorter = argparse.ArgumentParser(add_help=False)
    add_option(shorter, "--data_dir", help="short for --data.data_dir")
    text = "auto, cpu, cuda, cuda:1; short for --trainer.accelerator and --trainer.devices"
    add_option(shorter, "--device", default=None, help=f"one device: {text}")
    _add(out, name, "the run", [*run, *shorter._actions])
    common = (*_PROGRAM, *_RUN, *_FIT, *_TRACK, *choices, "trainer")
    own = [action for dest, action in actions.items() if dest.split(".")[0] not in common]
    _add(out, name, "this command", own)
    if training:
        _add(out, name, "checkpoints and the end of training", _of(_FIT, actions))
    _add(out, name, "services to report to", _of(_TRACK, actions))
    usual = TRAINER if training else _EVALUATION
    trainer = _of([f"trainer.{key}" for key in usual], actions)
    _add(out, name, "Lightning's trainer", trainer).add_argument(
        "--trainer.help", action="store_true", help="Print all its settings and end."
    )
    if way is not None:
        _add_way(out, name, way, {action.help for action in own})
    _add(out, name, "this program", _of(_PROGRAM, actions, without=("config",)))
    return out.format_help()


def _add_way(
    out: argparse.ArgumentParser, name: str, way: Command, texts: Container[str | None]
) -> None:
    """Add the options of the second way of a command, but for those that both ways have."""
    module = module_of(way)
    own: list[argparse.Action] = []
    shared: dict[str, None] = {}
    for action in module.parser()._actions:
        if action.dest not in _SHARED and action.help not in texts:
            own.append(action)
        elif action.option_strings and action.dest not in _PROGRAM and not _of_group(action):
            option = short_name(name, action.option_strings[0])
            shared[re.sub(r"\..+", ".*", option)] = None
    group = _add(out, name, f"with {' or '.join(way.chosen_by)}", own)
    group.description = f"{module.__doc__} Of the options above, it takes {', '.join(shared)}."


def _of(
    keys: Iterable[str], actions: Mapping[str, argparse.Action], without: Sequence[str] = ()
) -> list[argparse.Action]:
    """Return the actions of settings and of the groups of settings under them."""
    return [
        actions[dest]
        for key in keys
        for dest in actions
        if (dest == key or dest.startswith(f"{key}."))
        and dest not in without
        # These options only list the classes that Lightning has for a setting.
        and not dest.endswith(".help")
    ]


def _add(
    out: argparse.ArgumentParser, command: str, title: str, actions: Sequence[argparse.Action]
) -> argparse._ArgumentGroup:
    """Add a group of settings with their descriptions and defaults."""
    group = out.add_argument_group(title)
    for action in actions:
        if action.help in (None, argparse.SUPPRESS) or _of_group(action):
            continue
        text = str(_SHORT.get(action.dest) or action.help)
        text = f"{text[0].upper()}{text[1:]}".rstrip()
        empty = action.default in (None, argparse.SUPPRESS, False, [], {})
        if not empty and action.nargs != 0 and "(default" not in text:
            text = f"{text.removesuffix('.')} (default: {action.default})"
        text = text if text.endswith(".") else f"{text}."
        flags = [flag for flag in action.option_strings if not flag.endswith("+")]
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if action.choices is not None and not metavar:
            metavar = f"{{{','.join(map(str, action.choices))}}}"
        # Not `add_argument`: this parser only prints, and options may repeat.
        group._group_actions.append(
            argparse.Action(
                [short_name(command, flag) for flag in flags] or [*(action.choices or ())],
                action.dest,
                nargs=0 if action.nargs == 0 or not flags else None,
                help=text.replace("%", "%%"),
                metavar=metavar if metavar[:1] in ("{", "[") else "VALUE",
            )
        )
    return group


def _of_group(action: argparse.Action) -> bool:
    # `--checkpoint FILE` and the like load a group of settings: --config does that as well.
    return type(action).__name__ == "_ActionConfigLoad"


# The kept text


def help_path(name: str) -> Path:
    """Return the path of the cached help of a command, which may not exist."""
    # The key covers all that changes the help: library versions, our sources, the terminal's width.
    digest = hashlib.sha256(str(PROGRAM).encode())
    for library in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            digest.update(f"{library} {metadata.version(library)}".encode())
    for package in PACKAGES:
        for path in sorted((PROGRAM / package).rglob("*.py")):
            stat = path.stat()
            digest.update(f"{path} {stat.st_size} {stat.st_mtime_ns}".encode())
    width = min(shutil.get_terminal_size().columns, _WIDTH)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "steadfast" / "help" / f"{name}-{width}-{digest.hexdigest()[:16]}.txt"


def keep(name: str, text: str) -> None:
    """Write the help of a command to the cache, and remove its older versions."""
    path = help_path(name)
    with suppress(OSError):  # a folder that cannot be written to costs seconds, and nothing else
        for old in path.parent.glob(f"{path.name.rpartition('-')[0]}-*.txt"):
            old.unlink()
        with replacing(path) as stream:
            stream.write(text.encode())
