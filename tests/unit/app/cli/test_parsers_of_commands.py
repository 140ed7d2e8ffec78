"""The parser of a command is built once, and reads without the parser of all commands."""

import sys
from pathlib import Path

import pytest

from app.cli.main import entry
from app.cli.robust_cli import _PARSERS, RobustCLI

SETTINGS = ["--model=OLSA", "--data=Reviews"]


@pytest.mark.long
def test_a_wrong_line_leaves_nothing_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RobustCLI, "before_instantiate_classes", lambda _: sys.exit(7))
    assert entry(["fit", *SETTINGS, "--print_config", "--data.batch_size=x"]) == 2
    assert "got --data.batch_size x, expected a whole number" in capsys.readouterr().err
    parser = _PARSERS["fit"]["parser"]
    assert entry(["fit", *SETTINGS, "--seed=3"]) == 7
    assert _PARSERS["fit"]["parser"] is parser
    assert capsys.readouterr().out == ""
    assert entry(["fit", *SETTINGS, "--print_config"]) == 0
    # Neither the seed of the line before nor the command is in the settings.
    assert capsys.readouterr().out.splitlines()[1] == "seed_everything: 0"
