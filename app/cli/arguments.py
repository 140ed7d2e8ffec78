"""Prepares the words of a command line for the parser."""

import json
import re
from collections.abc import Container, Sequence
from pathlib import Path

import yaml

import datamodules
from app.cli.data_files import split_options
from lit_modules import METHODS, TaskModule
from lit_modules.adversaries import ADVERSARIES
from lit_modules.checkpoints.exported import SETTINGS
from lit_modules.checkpoints.reading import verify
from lit_modules.shared.settings import names
from run_files import run_directory
from run_files.run_directory import RunDirectory
from run_files.shipped import settings_file
from text.bounded_files import DataError, read_json, read_yaml
from text.torch_archive import CHECKPOINT_KEY

_NAME = re.compile(r"(?:(?:datamodules|lit_modules)\.(?:\w+\.)*)?([A-Za-z_]\w*)")
"""A class of this project, with or without its module; other dotted names are foreign classes."""
TRAINING = ("train", "fit")
COMMON = (
    *("seed_everything", "model", "data", "trainer", "checkpoint", "early_stopping"),
    *("checkpoint_every_n_minutes", "on_nonfinite_loss", "track", "detect"),
)
"""Settings that every command takes; `config.yaml` holds these."""


def device_words(words: Sequence[str]) -> list[str]:
    """Replace `--device` by the settings of the trainer that it means."""
    words = list(words)
    for option in reversed(split_options(words)):
        if option.name == "--device":
            kind, _, index = option.value.partition(":")
            settings = [f"--trainer.accelerator={'gpu' if kind == 'cuda' else kind}"]
            if kind != "auto":
                settings.append(f"--trainer.devices={f'[{index}]' if index else 1}")
            words[option.at : option.at + option.size] = settings
    return words


def classes_first(argv: Sequence[str]) -> list[str]:
    """Move `--model NAME` and `--data NAME` before the settings of that class.

    The parser reads from left to right, and knows the settings of a class once it knows the class.
    """
    words = list(argv)
    for key in ("--model", "--data"):
        options = split_options(words)
        first = next((o.at for o in options if o.name.startswith(f"{key}.")), len(words))
        chosen = next((option for option in options if option.name == key), None)
        if chosen is None or chosen.at < first:
            continue
        # Settings after a file override it, so their order matters.
        if not any(o.name in ("--config", "-c") for o in options[first : chosen.at]):
            moved = words[chosen.at : chosen.at + chosen.size]
            del words[chosen.at : chosen.at + chosen.size]
            words[first:first] = moved
    return words


def check_classes(argv: Sequence[str]) -> None:
    """Raise a ValueError for unknown classes, and for base classes; it lists the known ones."""
    classifiers = [name for name, cls in METHODS.items() if issubclass(cls, TaskModule)]
    wrapped = [name for name in classifiers if not METHODS[name].nested]
    names = {"--model": list(METHODS), "--data": list(datamodules.CORPORA)}
    names |= {"--model.classifier": wrapped, "--model.adversary": list(ADVERSARIES)}
    for option in split_options(argv):
        name = _NAME.fullmatch(option.value)
        choices = names.get(option.name)
        if choices is not None and name is not None and name[1] not in (*choices, "null"):
            msg = f"got {option.name} {option.value}, expected one of {', '.join(choices)}"
            raise ValueError(msg)


def check_groups(argv: Sequence[str]) -> None:
    """Raise a ValueError for a value of a group of settings that is neither mapping nor file.

    The parser would take it for a file, or drop it. The message names the settings.
    """
    options = split_options(argv)
    for prefix in ("--model", "--model.classifier"):
        chosen = [_NAME.fullmatch(option.value) for option in options if option.name == prefix]
        own = [METHODS[name[1]] for name in chosen if name and name[1] in METHODS]
        # Without the class, which a file may name, a group is one in all methods that have it.
        settings = [list(names(cls)) for cls in own or METHODS.values()]
        for option in options:
            group = option.name.removeprefix(f"{prefix}.")
            inner = [
                [name for name in of_class if name.startswith(f"{group}.")]
                for of_class in settings
                if group in of_class
            ]
            if group == option.name or not inner or not all(inner):
                continue
            if not _is_mapping(option.value) and not Path(option.value).is_file():
                single = (x for x in inner[0] if not any(y.startswith(f"{x}.") for y in inner[0]))
                listing = ", ".join(f"{option.name}.{x[len(group) + 1 :]}" for x in single)
                msg = f"got {option.name} {option.value}, expected a setting of it: {listing}"
                raise ValueError(msg)


def _is_mapping(text: str) -> bool:
    try:
        return isinstance(yaml.safe_load(text), dict | None)
    except yaml.YAMLError:
        return False


def with_configs(argv: Sequence[str]) -> list[str]:
    """Replace the names of shipped settings files after `--config` by their paths.

    A name that is not that of a file with settings is a ValueError.
    """
    words = list(argv)
    for at, size, name, value in split_options(argv):
        # A value may be the settings themselves.
        if name in ("--config", "-c") and "\n" not in value and ": " not in value:
            # As many words as before, so that the positions of later options stay.
            path = str(_config_file(value))
            words[at : at + size] = [f"{name}={path}"] if size == 1 else [name, path]
    return words


def _config_file(name: str) -> Path:
    """Return the path of a settings file, after reading it; see `with_configs`."""
    try:
        path = settings_file(name)
    except ValueError as error:
        msg = str(error).replace("got ", "got --config ", 1)
        raise ValueError(msg) from error
    reason = ""
    try:
        # The parser's own error would quote the complete file.
        if isinstance(read_yaml(path, "settings"), dict):
            return path
    except DataError as error:
        # The reason of the parser, without the path and the expectation that this line has.
        text = str(error)
        reason = f" ({text.partition('(')[2].rpartition('), expected')[0] or text})"
    msg = (
        f"got --config {name}, which holds no settings{reason}, expected a YAML file like "
        "configs/default.yaml; texts are given by --data"
    )
    raise ValueError(msg)


def with_stored_settings(argv: Sequence[str], commands: Container[str]) -> list[str]:
    """Add the settings of the run that the command line names; its own settings take precedence.

    An evaluation takes model, data and seed from the run, a training takes everything. With
    `--config`, nothing is added.

    Raises:
        ValueError: an evaluation names neither a run nor a checkpoint of one nor all settings.
        FileNotFoundError: run not found.
        CheckpointError: checkpoint not found.
    """
    position = next((i for i, word in enumerate(argv) if word in commands), None)
    if position is None:
        return list(argv)
    command, options = argv[position], list(argv[position + 1 :])
    named = {o.name.lstrip("-"): o.value for o in split_options(options) if o.name.startswith("-")}
    name, checkpoint = named.get("run"), named.get("ckpt_path")
    if "" in (name, checkpoint):  # the real parser reports the error
        return list(argv)
    runs = Path(named.get("runs_dir", "runs"))
    run = RunDirectory(runs / name) if name else None
    if command not in TRAINING and checkpoint and (run is None or not run.begun):
        run = run_directory.of_checkpoint(Path(checkpoint))
    complete = {"config", "c", *(("model", "data") if command in TRAINING else ())} & {*named}
    if run is None or complete or not run.begun:
        if command not in TRAINING and "data" in named and not {"config", "c", "model"} & {*named}:
            options = [*_exported_model(Path(checkpoint or "")), *options]
            argv = [*argv[: position + 1], *options]
        if command not in TRAINING and not _says_all(options):
            # The parser would ask for a model and a corpus, which hides the real error.
            _check_named(command, runs, name, checkpoint)
        return list(argv)
    keys = set(COMMON if command in TRAINING else ("seed_everything", "model", "data"))
    # Another class must not inherit settings that happen to have the same names.
    keys -= {"model", "data"} & {*named}
    stored = {key: value for key, value in run.config().items() if key in keys}
    # As the text of a file: jsonargparse takes it where it takes a path. Later words win.
    return [*argv[: position + 1], "--config", yaml.safe_dump(stored), *options]


def _exported_model(folder: Path) -> list[str]:
    """Return the words that give the model of a folder of `export`; none for another path."""
    if not (folder / SETTINGS).is_file():
        return []
    content = read_json(folder / SETTINGS, "the settings of an exported model")
    try:
        method, settings = content[CHECKPOINT_KEY]["method"], content["hyper_parameters"]
        # A folder from elsewhere must not name code to import.
        plain = {k: v for k, v in settings.items() if '"class_path"' not in json.dumps(v)}
    except (AttributeError, KeyError, TypeError):
        return []  # read again, with an error, where the weights are loaded
    model = {"class_path": f"lit_modules.{method}", "init_args": plain}
    return ["--config", yaml.safe_dump({"model": model})]


def _says_all(options: Sequence[str]) -> bool:
    """Return True if the options need no run: they name all settings, or print something."""
    keys = {word.split("=")[0] for word in options}
    if keys & {"--config", "-c", "--help", "-h", "--print_config"}:
        return True
    parts = ({f"--{part}", f"--{part}.class_path"} for part in ("model", "data"))
    return any(key.endswith(".help") for key in keys) or all(keys & names for names in parts)


def _check_named(command: str, runs: Path, name: str | None, ckpt_path: str | None) -> None:
    """Refuse a run or a checkpoint that gives an evaluation no settings."""
    if ckpt_path:
        verify(ckpt_path)
        msg = (
            f"got checkpoint {ckpt_path}, which lies in no run whose settings could be taken, "
            "expected them: --config FILE, or --model and --data"
        )
        raise ValueError(msg)
    run_directory.existing(runs, run_directory.named(command, name))
