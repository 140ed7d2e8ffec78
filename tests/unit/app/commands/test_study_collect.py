"""`study collect`: which figures are joined."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.commands import study as command
from app.study.cells import StudyContext
from app.study.study import Cell, CellFigures
from tests.unit.app.study.run_samples import make_run
from tests.unit.app.study.study_samples import cell, row, study
from text.file_lock import take


def test_published_figures_are_those_of_runs_that_are_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was made anew here, and is not measured yet, has other weights."""
    made = study(row("a", seeds=(0, 1, 2)))
    figures = [replace(cell("a", seed, "1101"), run=f"a-s{seed}") for seed in range(3)]
    empty: dict[str, Any] = {"corpus": "sst2", "config": (), "settings": {}, "stages": ()}
    cells = [Cell(row="a", seed=seed, run=f"a-s{seed}", **empty) for seed in range(3)]
    make_run(tmp_path / "a-s1", seed=1, metrics={})
    context = StudyContext(study="tiny", runs_dir=tmp_path)
    work = argparse.Namespace(context=context)
    written: list[CellFigures] = []
    monkeypatch.setattr(command, "_check", lambda args: (made, cells, work))
    monkeypatch.setattr(command, "_figures", lambda *_: (figures[:1], {}))
    monkeypatch.setattr(
        command, "_write", lambda study, all_figures, *_: written.extend(all_figures)
    )
    monkeypatch.setattr("app.study.derivation.published_figures", lambda *_: figures)
    assert command._collect(argparse.Namespace(published=Path("published.json"))) == 0
    assert [figure.run for figure in written] == ["a-s0", "a-s2"]
    assert "a-s1 is here, and not complete: its published figures are left out" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("measured", ["a", "ab"])
def test_a_column_without_figures_is_named_once_all_rows_have_some(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    measured: str,
) -> None:
    made = study(row("a"), row("b"))
    monkeypatch.setattr("app.commands.study_table.write_all", lambda *_: None)
    figures = [replace(cell(name, 0, "11"), values={}) for name in measured]
    assert command._write(made, figures, {}, tmp_path)
    named = "no run has a figure" in capsys.readouterr().err
    assert named == (measured == "ab")


def test_figures_are_read_and_written_under_one_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands that end together: the later one has the figures of both."""
    made, cells = study(row("a")), [replace(cell("a", 0, "1"), run="a-s0")]
    context = StudyContext(study="tiny", runs_dir=tmp_path)
    held: list[bool] = []

    def look(*_: object) -> tuple[list[CellFigures], dict[str, Any]]:
        with (context.out / ".study.json.lock").open("a+b") as stream:
            held.append(not take(stream))
        return [], {}

    work = argparse.Namespace(context=context)
    monkeypatch.setattr(command, "_check", lambda args: (made, cells, work))
    monkeypatch.setattr(command, "_figures", look)
    monkeypatch.setattr(command, "_write", look)
    command._collect(argparse.Namespace(published=None))
    assert held == [True, True]
    with (context.out / ".study.json.lock").open("a+b") as stream:
        assert take(stream)
