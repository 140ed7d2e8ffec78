"""The entry point's decisions, with a stand-in for the program: no engine needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.commands import COMMANDS, LIGHTNING, module_of
from tests.docker.compose import ROOT

STAND_IN = f"""#!/bin/sh
[ "$2" != app.cli.commands ] || exec env PYTHONPATH={ROOT} {sys.executable} "$@"
[ "$3 $4" != "doctor --data_dir" ] || {{ echo doctor; exit ${{DOCTOR_STATUS:-0}}; }}
echo "$@"
exit 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Stands for /app, with one run in it."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "python"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "config.yaml").touch()
    return tmp_path


def start(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(ROOT / "docker" / "entrypoint.sh"), *arguments],
        cwd=folder,
        env={"PATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_training_gets_the_defaults_before_its_arguments(folder: Path) -> None:
    done = start(folder, "train", "--config", "a b.yaml", RUN="first")
    assert done.stdout == "-m app train --run first --data_dir data --config a b.yaml\n"
    assert done.returncode == 7


def test_without_a_name_the_program_makes_one_up(folder: Path) -> None:
    assert start(folder, "train", RUN="").stdout == "-m app train --data_dir data\n"


def test_evaluation_names_its_run(folder: Path) -> None:
    assert start(folder, "certify", RUN="first").stdout == (
        "-m app certify --run first --data_dir data\n"
    )
    assert start(folder, "test", "--run=other").stdout == (
        "-m app test --data_dir data --run=other\n"
    )
    assert start(folder, "attack", RUN="first").stdout == (
        "-m app attack --run first --data_dir data --attack.resources data\n"
    )


@pytest.mark.parametrize(
    ("arguments", "filled_in"),
    [
        ("predict --text x", "predict --run first --text x"),
        ("predict --file=x", "predict --run first --file=x"),
        ("predict -", "predict --run first -"),
        ("predict", "predict --run first --data_dir data"),
        ("predict --text x --run other", "predict --text x --run other"),
        ("certify --threat synonyms", "certify --run first --data_dir data --threat synonyms"),
        ("certify export --run other", "certify export --run other"),
        ("attack --victim hf:x", "attack --attack.resources data --victim hf:x"),
        ("attack merge --run other", "attack merge --run other"),
        ("attack pairs --run other", "attack pairs --run other"),
        ("report", "report --run first"),
        ("report --run other", "report --run other"),
        ("export --output x", "export --run first --output x"),
        ("diagnose", "diagnose --run first"),
        ("compare --run a b", "compare --run a b"),
        ("study run x.yaml --data_dir data", "study run x.yaml --data_dir data"),
        ("doctor", "doctor"),
        ("runs", "runs"),
        ("resources", "resources"),
        ("augment --text x", "augment --text x"),
    ],
)
def test_a_command_gets_what_it_takes_and_nothing_else(
    folder: Path, arguments: str, filled_in: str
) -> None:
    done = start(folder, *arguments.split(), RUN="first")
    assert done.stdout == f"-m app {filled_in}\n"
    assert done.returncode == 7


def test_what_is_filled_in_are_options_of_the_command() -> None:
    for command in COMMANDS.values():
        for way in (command, command.way):
            if way is not None and way.container and way.file != LIGHTNING:
                parser = module_of(way).parser()
                known = {word for one in parser._actions for word in one.option_strings}
                assert set(way.container) <= known


def test_a_checkpoint_says_which_run_it_is_of(folder: Path) -> None:
    done = start(folder, "test", "--ckpt_path", "runs/x/checkpoints/last.ckpt", RUN="first")
    assert "--run" not in done.stdout


@pytest.mark.parametrize(
    ("run", "message"),
    [("", "got no run to certify; expected RUN=NAME"), ("nix", "got RUN=nix; expected RUN=NAME")],
)
def test_evaluation_without_a_run_names_those_there_are(
    folder: Path, run: str, message: str
) -> None:
    done = start(folder, "certify", RUN=run)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert message in line
    assert "(there are: first)" in line


def test_the_live_page_listens_in_its_container(folder: Path) -> None:
    done = start(folder, "serve", "--queries", "9", RUN="first")
    expected = "-m app serve --run first --host 0.0.0.0 --data_dir data --resources data"
    assert done.stdout == f"{expected} --queries 9\n"
    assert "got no run to serve" in start(folder, "serve").stderr


@pytest.mark.parametrize("run", ["../x", ".x", "a b", "a/b", "-x"])
def test_a_name_that_is_none_is_refused(folder: Path, run: str) -> None:
    done = start(folder, "train", RUN=run)
    assert done.returncode == 1
    assert f"got RUN={run}, expected" in done.stderr


def test_a_folder_of_runs_in_the_container_is_noted(folder: Path) -> None:
    done = start(folder, "train")
    assert done.stderr.startswith("note: runs/ is inside this container and goes with it")


@pytest.mark.parametrize("arguments", [["train", "--help"], ["certify", "-h"], ["--version"], []])
def test_help_needs_nothing(folder: Path, arguments: list[str]) -> None:
    done = start(folder, *arguments, RUN="nix", DOCTOR="1")
    assert done.stdout.split() == ["-m", "app", *arguments]
    assert done.stderr == ""


def test_doctor_comes_first(folder: Path) -> None:
    assert start(folder, "train", DOCTOR="1").stdout.splitlines() == [
        "doctor",
        "-m app train --data_dir data",
    ]
    assert "doctor" not in start(folder, "train", DOCTOR="0").stdout


def test_a_failing_doctor_stops_the_job_with_its_status(folder: Path) -> None:
    done = start(folder, "train", DOCTOR="1", DOCTOR_STATUS="3")
    assert done.returncode == 3
    assert done.stdout == "doctor\n"


def test_other_programs_run_as_they_are(folder: Path) -> None:
    done = start(folder, "sh", "-c", "echo $0 $#", "a", "b")
    assert done.stdout == "a 1\n"
    assert done.returncode == 0
    assert start(folder, "tran", RUN="first").stdout == "-m app tran\n"


def test_scripts_can_be_executed() -> None:
    for name in ("entrypoint.sh", "prepare.sh", "smoke_test.sh"):
        assert (ROOT / "docker" / name).stat().st_mode & 0o111 == 0o111
