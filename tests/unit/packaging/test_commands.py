"""The commands of the pages can be given: their options exist."""

import argparse
import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jsonargparse import ArgumentParser
from pytorch_lightning.cli import LightningCLI

from app.cli.arguments import classes_first, device_words, with_configs
from app.cli.commands import LIGHTNING, check_options, find_command
from app.cli.data_files import file_words
from app.cli.parser import remembered_actions
from app.cli.robust_cli import RobustCLI
from app.cli.run_options import full_names
from lit_modules import unused_settings

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TRAINED = (["app", "fit"], ["app", "train"])
OF_VICTIMS = (
    *("attack", "attack pairs", "attack text", "check", "functional", "measure"),
    "resources paraphrases",
)
"""Commands with a parser of jsonargparse."""
PLUGIN = {"DeepAveraging", "double-letter", "reversed-words"}
"""Names of examples/plugin."""
UNBUILT = {"--model.init_from"}
"""Settings that name a checkpoint, without which there is no method to ask."""


class Parsed(Exception):
    """A command line was read to its end."""


def commands(text: str) -> Iterator[list[str]]:
    """The command lines of a page, in words, with what can be left out."""
    given: dict[str, str] = {}
    lines = text.replace("\\\n", " ").splitlines()
    for line in lines:
        if found := re.fullmatch(r'\s*([A-Z])="(.*)"', line):
            given[found[1]] = found[2]
            continue
        quoted = re.findall(r"`([^`]+)`", line)
        for one in quoted or [line]:
            expanded = re.sub(r"\$([A-Z])\b", lambda name: given.get(name[1], name[0]), one)
            yield from command(expanded)


def command(line: str) -> Iterator[list[str]]:
    """The words of one line, if it is a command of ours."""
    line = re.sub(r"\s#.*", "", line)
    line = re.sub(
        r"^\s*make train ARGS=\"(.*)\"\s*$", r"app train --config configs/default.yaml \1", line
    )
    line = re.sub(
        r"^.*docker compose .*?run --rm (train|test|certify|attack|predict)\b", r"app \1", line
    )
    found = re.match(
        r"\s*(?:[A-Z]+=\S+ )*(?:(?:\.venv/bin/)?python -m )?"
        r"(app|steadfast|benchmarks\.\w+)((?: .*)?)$",
        line,
    )
    starts = line.startswith("app ") or line.lstrip().startswith("steadfast ")
    if found is None or not ("python -m" in line or starts):
        return
    program = found[1].replace("steadfast", "app")
    # `[--option VALUE]`: what can be left out. Other brackets belong to a value.
    words = shlex.split(re.sub(r"\[(--[^\]]*)\]", r"\1", found[2]))
    yield [program, *(word for word in words if word not in ("...", "|", "&&"))]


# Each once, although several pages have it; tests/integration/test_plugins.py has the others.
PAGE_OF = {
    tuple(words): page.stem
    for page in reversed(PAGES)
    for words in commands(page.read_text())
    if not PLUGIN.intersection(words)
}
COMMANDS = [
    pytest.param(
        list(words),
        id=f"{page}: {' '.join(words)}",
        marks=() if page in ("README", "CONTRIBUTING", "first_hour") else pytest.mark.long,
    )
    for words, page in PAGE_OF.items()
]


PARSED: dict[tuple[str, ...], Any] = {}
"""Settings of the command lines that were read: it takes a tenth of a second each."""


def stop(*_: Any) -> None:
    raise Parsed


@pytest.fixture(scope="module")
def parsers() -> dict[str, ArgumentParser]:
    """The real parsers of the commands on runs."""
    with pytest.MonkeyPatch.context() as patch:
        for cli in (LightningCLI, RobustCLI):
            patch.setattr(cli, "parse_arguments", stop)
        made = RobustCLI.__new__(RobustCLI)
        with pytest.raises(Parsed):
            RobustCLI.__init__(made, [])
    found: dict[str, ArgumentParser] = dict(made._subcommand_parsers)
    return found


def lenient(parser: argparse.ArgumentParser) -> None:
    """Let a parser take any value, and do without any option: names of options are what counts."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                lenient(inner)
        else:
            action.type, action.choices, action.required = None, None, False


def read_and_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every parser of the standard library read its command line, and nothing follow."""
    real = argparse.ArgumentParser.parse_args

    def parse(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> None:
        lenient(self)
        real(self, args, namespace)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)


@pytest.mark.long
@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_of_the_pages_can_be_given(
    words: list[str], parsers: dict[str, ArgumentParser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    program, *rest = words
    if program != "app":
        module = import_module(program)
        if hasattr(module, "__path__"):
            module = import_module(f"{program}.__main__")
        read_and_stop(monkeypatch)
        monkeypatch.setattr("sys.argv", [program, *rest])
        with pytest.raises(Parsed):
            module.main()
        return
    call = find_command(rest)
    if call is None:  # `COMMAND`, --version
        assert rest in (
            ["COMMAND", "..."],
            ["COMMAND"],
            ["COMMAND", "--help"],
            ["--version"],
            ["--help"],
            [],
        )
        return
    if "--help" in call.words:
        return
    try:
        check_options(call)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    if call.command.file != LIGHTNING:
        if call.name not in OF_VICTIMS:
            read_and_stop(monkeypatch)
        with nullcontext() if call.name in OF_VICTIMS else pytest.raises(Parsed):
            call.parse()
        return
    options = file_words(device_words(full_names(call.name, call.words)))
    keys = {word.split("=")[0] for word in options}
    # An evaluation has both from its run.
    if not keys & {"--config", "--model"}:
        options = ["--model", "OLSA", *options]
    if not keys & {"--config", "--data"}:
        options = ["--data", "SST2", *options]
    helps = any(key.endswith(".help") for key in keys)
    with pytest.raises(SystemExit, match=r"^0$") if helps else nullcontext():
        options = classes_first(with_configs(options))
        with remembered_actions():
            PARSED[tuple(words)] = parsers[call.name].parse_args(options)


def trained(words: list[str]) -> bool:
    """True for a command that trains a method with settings of its own."""
    keys = {word.split("=")[0] for word in words}
    asks = any(key.endswith(".help") for key in keys)
    return (
        words[:2] in TRAINED
        and bool(keys & {"--config", "--model"})
        and not (asks or UNBUILT & keys)
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [one for one in COMMANDS if isinstance(one.values[0], list) and trained(one.values[0])]
)
def test_every_setting_of_the_pages_has_an_effect(
    words: list[str], parsers: dict[str, ArgumentParser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    # LightningCLI builds in this way, too.
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    _, name, *options = words
    keys = {word.split("=")[0] for word in options}
    if tuple(words) not in PARSED:
        test_every_command_of_the_pages_can_be_given(words, parsers, monkeypatch)
    parsed = PARSED[tuple(words)]
    module = parsers[name].instantiate_classes(type(parsed)(model=parsed.model)).model
    found = [f"--model.{sentence}" for sentence in unused_settings(module)]
    # An option of the line may disable a setting of its file.
    alone = not any(key.startswith("--model") for key in keys)
    assert [one for one in found if alone or one.split("=")[0] in keys] == []


@pytest.mark.parametrize(
    "line",
    [
        "    steadfast train --config configs/default.yaml --model.no_such_setting 1",
        "    steadfast attack --run first --attacks pwws",
        "    python -m app attack --run first --attack.num_samples 3",
        "    python -m app certify --run first --threat words --trainer.accelerator cpu",
        "    python -m app export --run first --to FOLDER",
        "    docker compose run --rm train --modle.gamma 1",
        "    python -m benchmarks.parity recorded --data_dir DIR --nowhere 1",
        "    python -m app diagnose --run first --same_text",
    ],
)
def test_a_command_that_cannot_be_given_is_noticed(
    line: str, parsers: dict[str, ArgumentParser], monkeypatch: pytest.MonkeyPatch
) -> None:
    (words,) = commands(line)
    with pytest.raises(SystemExit):
        test_every_command_of_the_pages_can_be_given(words, parsers, monkeypatch)
