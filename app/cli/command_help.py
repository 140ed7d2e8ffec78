"""Builds the short help of a command of LightningCLI: the most used settings come first.

The parser takes seconds to build. So the text stays in the cache folder until a file or a library
of the program changes.
"""

import argparse
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from app.cli.commands import COMMANDS
from run_files.atomic import replacing

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
_PACKAGES = (
    *("app", "attacks", "certify", "datamodules", "layers", "lit_modules", "measure"),
    *("run_files", "text", "training"),
)
_LIBRARIES = ("jsonargparse", "pytorch-lightning", "torch")
_WIDTH = 100


def formatter(prog: str) -> argparse.HelpFormatter:
    """Return a formatter of help with at most 100 columns."""
    width = min(shutil.get_terminal_size().columns, _WIDTH)
    return argparse.HelpFormatter(prog, width=width, max_help_position=32)


def command_help(
    parser: argparse.ArgumentParser, name: str, choices: Mapping[str, Sequence[str]]
) -> str:
    """Return the help of a command."""
    actions = {action.dest: action for action in parser._actions}
    training = name in ("train", "fit")
    common = {
        key for key in actions if key.split(".")[0] in (*_PROGRAM, *_RUN, *_FIT, *_TRACK, "trainer")
    }
    own = [key for key in actions if key not in common and key.split(".")[0] not in choices]
    out = argparse.ArgumentParser(
        prog=f"steadfast {name}",
        usage=f"steadfast {name} --config FILE [settings]\n"
        f"       steadfast {name} --run NAME [settings]"
        + (f"\n       steadfast {name} --model NAME --data NAME [settings]" if training else ""),
        description=f"{COMMANDS[name].summary} docs/cli.md has examples.",
        formatter_class=formatter,
        add_help=False,
    )
    parts = out.add_argument_group("what is trained, and on what")
    parts.add_argument(
        "-c", "--config", metavar="FILE", help="Settings from a YAML file; later words win."
    )
    for key, names in choices.items():
        parts.add_argument(
            f"--{key}",
            metavar="NAME",
            help=f"One of {', '.join(names)}, or the import path of a class of yours.",
        )
        parts.add_argument(
            f"--{key}.help", metavar="NAME", help="Print the settings of one of them and end."
        )
    _add(out, "the run", _of(_RUN, actions))
    _add(out, "this command", [actions[key] for key in own])
    if training:
        _add(out, "checkpoints and the end of training", _of(_FIT, actions))
    _add(out, "services to report to", _of(_TRACK, actions))
    usual = TRAINER if training else _EVALUATION
    trainer = _of([f"trainer.{key}" for key in usual], actions)
    group = _add(out, "Lightning's trainer", trainer)
    group.add_argument(
        "--trainer.help", action="store_true", help="Print all its settings and end."
    )
    _add(out, "this program", _of(_PROGRAM, actions, without=("config",)))
    return out.format_help()


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
    out: argparse.ArgumentParser, title: str, actions: Sequence[argparse.Action]
) -> argparse._ArgumentGroup:
    """Add a group of settings with their descriptions and defaults."""
    group = out.add_argument_group(title)
    for action in actions:
        # `--checkpoint FILE` and the like load a group of settings: --config does that as well.
        of_group = type(action).__name__ == "_ActionConfigLoad"
        if action.help in (None, argparse.SUPPRESS) or of_group:
            continue
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        text = str(_SHORT.get(action.dest) or action.help)
        text = f"{text[0].upper()}{text[1:]}".rstrip()
        if action.default not in (None, argparse.SUPPRESS, False) and action.nargs != 0:
            text = f"{text.removesuffix('.')} (default: {action.default})."
        text = text if text.endswith(".") else f"{text}."
        flags = [flag for flag in action.option_strings if not flag.endswith("+")]
        # Not `add_argument`: this parser only prints, and options may repeat.
        group._group_actions.append(
            argparse.Action(
                flags,
                action.dest,
                nargs=0 if action.nargs == 0 else None,
                help=text.replace("%", "%%"),
                metavar=metavar if metavar[:1] in ("{", "[") else "VALUE",
            )
        )
    return group


# The kept text


def help_path(name: str) -> Path:
    """Return the path of the cached help of a command, which may not exist."""
    # The key covers all that changes the help: library versions, our sources, the terminal's width.
    root = Path(__file__).parents[2]
    digest = hashlib.sha256(str(root).encode())
    for library in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            digest.update(f"{library} {metadata.version(library)}".encode())
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
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
