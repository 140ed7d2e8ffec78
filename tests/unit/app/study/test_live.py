import io
from contextlib import redirect_stderr
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from app.study.live import Remaining, StudyProgress, remaining
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
    with redirect_stderr(stream), StudyProgress(STUDY, CELLS, Path("runs"), 2) as progress:
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
        # Of row b nothing has ended: it is another model.
        "a0: done (1 of 4, at least 1 min left)",
        "a1: failed: fit: got \\x1b[31mred (2 of 4, at least 1 min left)",
        "b0: attack",
    ]


def test_minutes_left() -> None:
    seconds = {"a0": 60.0, "b0": 120.0}
    assert remaining(CELLS, CELLS, {}, {}, 1) is None
    both = [CELLS[1], CELLS[3]]
    assert remaining(CELLS, both, seconds, {}, 1) == Remaining(3, False)
    # One run is not divided among jobs.
    assert remaining(CELLS, both, seconds, {}, 2) == Remaining(2, False)
    assert remaining(CELLS, [], seconds, {}, 2) == Remaining(0, False)
    after = replace(CELLS[3], after="a1")
    assert remaining(CELLS, [CELLS[1], after], seconds, {}, 2) == Remaining(3, False)


def test_the_minutes_of_a_schedule_hold() -> None:
    """Row a takes 20 s a run, row b 600 s: at no time may the estimate promise too little."""
    lengths = {"a0": 20.0, "a1": 20.0, "b0": 600.0, "b1": 600.0}
    ends = dict(zip(lengths, accumulate(lengths.values()), strict=True))
    whole = ends["b1"]
    for clock in range(20, int(whole), 5):
        left = [cell for cell in CELLS if ends[cell.run] > clock]
        done = {run: lengths[run] for run in lengths if ends[run] <= clock}
        past = {left[0].run: clock - (ends[left[0].run] - lengths[left[0].run])}
        estimate = remaining(CELLS, left, done, past, 1)
        assert estimate is not None
        right = (whole - clock) / 60
        if estimate.least:
            assert estimate.minutes <= right
        else:
            assert estimate.minutes == pytest.approx(right)
        # Once a run of each row has ended, the estimate is exact.
        assert estimate.least == (clock < ends["b0"])


def test_a_run_that_is_late_is_not_about_to_end() -> None:
    late = remaining(CELLS, [CELLS[1]], {"a0": 60.0}, {"a1": 360.0}, 1)
    assert late == Remaining(5, True)
    assert [str(Remaining(0.5, False)), str(Remaining(7.4, False)), str(Remaining(7.4, True))] == [
        "less than a minute left",
        "about 7 min left",
        "at least 8 min left",
    ]


def test_a_table_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    shown = watched(Terminal())
    assert "small: 2 of 4 runs" in shown
    assert "✓" in shown
    assert "✗" in shown
    assert "sst2 s0: attack" in shown
