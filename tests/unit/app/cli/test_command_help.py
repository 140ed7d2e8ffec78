"""The help of commands is quick the second time, and never that of another program."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import command_help, main
from app.cli.command_help import help_path, keep
from app.cli.commands import LIGHTNING, find_command, help_of_all

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "steadfast" / "help"


@pytest.mark.long
def test_all_commands_are_listed_without_torch() -> None:
    program = (
        "import sys; from app.cli.main import entry; status = entry(sys.argv[1:]); "
        "print(status, [name for name in ('torch', 'pytorch_lightning') if name in sys.modules])"
    )
    for words in (["--help"], []):
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        assert done.stdout.startswith(help_of_all())
        assert done.stdout.endswith("0 []\n" if words else "2 []\n")


def test_kept_help_needs_no_torch() -> None:
    keep("train", "kept help\n")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "app", "train", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": os.environ.get("COLUMNS", "80")},
    )
    assert done.stdout == "kept help\n"
    assert "torch" not in done.stderr


def test_help_of_another_program_is_not_taken(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "program"
    (source / "app" / "cli").mkdir(parents=True)
    (source / "app" / "cli" / "new.py").write_text("one = 1\n")
    monkeypatch.setattr(command_help, "PROGRAM", source)
    keep("train", "first\n")
    assert help_path("train").read_text() == "first\n"
    (source / "app" / "cli" / "new.py").write_text("two = 22\n")
    assert not help_path("train").exists()
    keep("train", "second\n")
    assert [path.read_text() for path in cache.iterdir()] == ["second\n"]


def test_a_narrow_terminal_has_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, text in (("60", "narrow"), ("240", "wide")):
        monkeypatch.setenv("COLUMNS", columns)
        keep("test", text)
    assert help_path("test").read_text() == "wide"
    monkeypatch.setenv("COLUMNS", "100")
    assert help_path("test").read_text() == "wide"
    monkeypatch.setenv("COLUMNS", "60")
    assert help_path("test").read_text() == "narrow"


def kept(argv: list[str]) -> bool:
    """True if a help comes from the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "_lightning", lambda argv: 77)
        return main.entry(argv) == 0


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    keep("train", "text")
    assert not kept(["train", "--help"])


def test_only_help_alone_is_kept() -> None:
    keep("certify", "kept\n")
    assert kept(["certify", "--help"])
    assert not kept(["certify", "--run=a", "--help"])
    # Both ways have one help.
    assert kept(["certify", "--threat", "words", "--help"])


def test_the_way_of_a_command() -> None:
    def found(line: str) -> tuple[str, str, int] | None:
        call = find_command(line.split())
        return None if call is None else (call.name, call.command.file, len(call.words))

    assert found("study table x") == ("study table", "commands.study_table", 1)
    assert found("study run") == ("study", "commands.study", 1)
    assert found("attack merge") == ("attack merge", "commands.attack_merge", 0)
    assert found("attack --run=a") == ("attack", LIGHTNING, 1)
    assert found("attack --victim=a") == ("attack", "commands.attack", 1)
    assert found("certify --k 1 --threat words") == ("certify", "commands.certify", 4)
    assert found("predict -") == ("predict", "commands.predict", 1)
    assert found("predict --run a") == ("predict", LIGHTNING, 2)
    assert found("nonsense") is None
    assert found("") is None


def test_the_help_has_both_ways_of_a_command() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--radii", help="the radii")
    text = command_help.command_help(parser, "certify", {})
    assert "--radii" in text
    assert "with --threat:" in text
    assert {"--lists", "--draws", "--num_samples"} <= {*text.split()}
