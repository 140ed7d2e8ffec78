"""One name for each option, and one error for each former name."""

import argparse
from pathlib import Path

import pytest

from app.cli.commands import COMMANDS, LIGHTNING, check_options, find_command, module_of
from app.cli.main import entry
from app.cli.run_options import (
    FORMER,
    OPTIONS,
    SETTINGS,
    check_output,
    full_names,
    refuse_former,
    short_name,
)

PARSERS = {
    f"{name} {way.file}": way
    for name, command in COMMANDS.items()
    for way in (command, command.way)
    if way is not None and way.file != LIGHTNING
}


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options of a parser and of the parsers inside of it."""
    found: list[argparse.Action] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [one for inner in action.choices.values() for one in actions(inner)]
        else:
            found.append(action)
    return found


@pytest.mark.parametrize("name", PARSERS)
def test_shared_options_are_alike_and_former_names_are_gone(name: str) -> None:
    module = module_of(PARSERS[name])
    assert module.__doc__
    assert module.parser().description == module.__doc__
    command = name.rpartition(" ")[0]
    # The names of settings stay in the parsers of jsonargparse; no command line reaches them.
    former = {*FORMER[""], *FORMER.get(command, {})} - {*SETTINGS["attack"].values()}
    for action in actions(module.parser()):
        assert not former & {*action.option_strings}
        for option in {*action.option_strings} & OPTIONS.keys():
            kind = OPTIONS[option].get("type", action.type)
            # A parser of jsonargparse has types of its own.
            paths = ("--output", "--data_dir", "--runs_dir")
            assert action.type in (kind, None) or option in paths


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "attack --run a --attack.num_samples 3",
            "got --attack.num_samples, which is --num_samples now ",
        ),
        ("attack --victim x --attack.seed=1", "got --attack.seed, which is --seed now "),
        ("train --seed_everything 1", "got --seed_everything, which is --seed now "),
        ("diagnose --run a --samples=3", "got --samples, which is --num_samples now "),
        ("certify --threat words --samples 3", "got --samples, which is --draws now "),
        ("export --run a --to x", "got --to, which is --output now "),
        ("attack merge --out x", "got --out, which is --output now "),
        ("attack sheet --texts 3", "got --texts, which is --num_samples now "),
        ("attention --draw 0", "got --draw, which is --seed now "),
        (
            "certify --threat words --trainer.devices=1",
            "got --trainer.devices with --threat, expected --device ",
        ),
        ("certify --threat=words --radii=1", "got --radii with --threat, expected one of the two "),
        (
            "predict --file x --data.batch_size 1",
            "got --data.batch_size with --file, expected one of",
        ),
        ("attack --victim x --run a", "got --run with --victim, expected --victim run:NAME "),
        (
            "attack --victim=x --attack.split test",
            "got --attack.split with --victim, expected --dataset",
        ),
        (
            "functional x.tsv --run a --tag ../b",
            "argument --tag: got '../b', expected letters, digits and . _ -",
        ),
        ("certify --threat typos --tag a/b", "argument --tag: got 'a/b', expected letters, "),
        ("nonsense --run a", "got nonsense, expected a command first: doctor, inspect, "),
    ],
)
def test_one_error_names_the_option_to_use(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry(line.split()) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {message}")


@pytest.mark.parametrize(
    "line",
    [
        "certify --run a --trainer.devices 1",
        "certify --threat words --device cpu --data_dir d --num_samples 3",
        "attack --victim x --seed 1 --num_samples 2 --output o",
        "resources encode-words --texts a --output b",
        "predict --text a --output b",
        "attack --run a --output_x",
    ],
)
def test_present_names_are_accepted(line: str) -> None:
    call = find_command(line.split())
    assert call is not None
    check_options(call)


def test_an_output_neither_replaces_an_input_nor_lies_below_a_file(tmp_path: Path) -> None:
    texts, other = tmp_path / "texts.txt", tmp_path / "other.txt"
    for path in (texts, other):
        path.write_text("fine\n")
    (tmp_path / "link.txt").symlink_to(texts)
    for output, message in {
        texts: "which this command reads, expected another file: its content would be lost",
        tmp_path / "link.txt": "which this command reads",
        tmp_path: "which is a folder, expected --output FILE",
        texts / "a" / "b": f"where {texts} is a file, expected a folder",
    }.items():
        with pytest.raises(ValueError, match=f"got --output {output}, {message}"):
            check_output(output, None, tmp_path / "absent", texts)
    check_output(other, texts)
    check_output(tmp_path / "new" / "file", texts, None)


@pytest.mark.parametrize(
    "line",
    [
        "augment --recipe deepwordbug --file F --output F",
        "predict --run absent --file F --output F",
        "resources counter-fit F --synonyms s --antonyms a --output F",
        "resources counter-fit v --synonyms s --antonyms F --output F",
        "resources encode-words --lists F --texts t --output F",
        "resources paraphrases --texts F --url http://127.0.0.1:9 --output F",
        "resources paraphrases --records F --url http://127.0.0.1:9 --output F",
    ],
)
def test_no_command_replaces_its_input(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_text("fine\n")
    assert entry(line.replace("F", str(path)).split()) == 1
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: got --output {path}, which this command reads, expected an")
    assert path.read_text() == "fine\n"


def test_names_of_settings() -> None:
    words = ["--num_samples=3", "--attack", "a=b.yaml", "--seed", "1", "--data_dir=d", "--run=x"]
    assert full_names("attack", words) == [
        *("--attack.num_samples=3", "--attack.recipe", "a=b.yaml", "--attack.seed", "1"),
        *("--data.data_dir=d", "--run=x"),
    ]
    assert full_names("test", words)[:4] == [
        "--num_samples=3",
        "--attack",
        "a=b.yaml",
        "--seed_everything",
    ]
    assert short_name("attack", "--attack.num_samples") == "--num_samples"
    assert short_name("train", "--seed_everything") == "--seed"
    assert short_name("train", "--attack.num_samples") == "--attack.num_samples"
    for command, names in FORMER.items():
        refuse_former(command, [*names.values()])


@pytest.mark.parametrize("name", [n for n, c in COMMANDS.items() if c.file != LIGHTNING])
def test_no_parser_takes_the_beginning_of_an_option(name: str) -> None:
    assert not module_of(COMMANDS[name]).parser().allow_abbrev
