import io
from pathlib import Path

import pytest

from app.study.live import StudyProgress, remaining
from app.study.runner import CellOutcome
from app.study.study import Cell, Study, StudyRow

STUDY = Study(
    name="small",
    title="Small",
    about="",
    rows=tuple(StudyRow(name=name, title=name, seeds=(0, 1), stages=()) for name in ("a", "b")),
    columns=(),
    digest="",
)
CELLS = [
    Cell(row=row, corpus="sst2", seed=seed, run=f"{row}{seed}", config=(), settings={}, stages=())
    for row in ("a", "b")
    for seed in (0, 1)
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(stream: io.StringIO) -> str:
    with StudyProgress(STUDY, CELLS, Path("runs"), 2, stream) as progress:
        for cell in CELLS[:3]:
            progress.begins(cell)
        progress.tell(CELLS[0], "fit")
        progress.ends(CELLS[0], CellOutcome(state="done"))
        progress.ends(CELLS[1], CellOutcome(state="failed", error="fit: got \x1b[31mred"))
        progress.tell(CELLS[2], "attack")
        progress.tick()
    return stream.getvalue()


def test_plain_lines_in_a_file() -> None:
    assert watched(io.StringIO()).splitlines() == [
        "a0: fit",
        "a0: done (1 of 4, less than a minute left)",
        "a1: failed: fit: got \\x1b[31mred (2 of 4, less than a minute left)",
        "b0: attack",
    ]


def test_minutes_left() -> None:
    seconds = {"a0": 60.0, "b0": 120.0}
    assert remaining(CELLS, CELLS, {}, {}, 1) is None
    both = [CELLS[1], CELLS[3]]
    assert remaining(CELLS, both, seconds, {}, 1) == 3
    # One run is not divided among jobs.
    assert remaining(CELLS, both, seconds, {}, 2) == 2
    assert remaining(CELLS, [], seconds, {}, 2) == 0


def test_a_table_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    shown = watched(Terminal())
    assert "small: 2 of 4 runs" in shown
    assert "✓" in shown
    assert "✗" in shown
    assert "sst2 s0: attack" in shown
