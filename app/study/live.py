"""Shows how far a study is: a live table in a terminal, lines elsewhere."""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from app.cli.terminal import harmless
from app.runs import results
from app.study.runner import Outcome
from app.study.study import Cell, Study

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_SIGNS = {"done": "✓", "failed": "✗", "not run": "–", "stopped": "‖"}
_STYLES = {"✓": "green", "✗": "red", "–": "yellow", "‖": "yellow"}


class Progress:
    """Is told what happens to the cells, and shows it.

    Args:
        study: the study.
        cells: those that are run.
        runs: directory of all runs.
        jobs: cells at a time.
        stream: where it is shown; standard error if not given.
    """

    def __init__(
        self,
        study: Study,
        cells: Sequence[Cell],
        runs: Path,
        jobs: int,
        stream: TextIO | None = None,
    ) -> None:
        self.study, self.cells, self.runs, self.jobs = study, cells, runs, jobs
        self.outcomes: dict[str, Outcome] = {}
        self._doing: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stream = stream or sys.stderr
        self._live = _live(self._stream)

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self.tick()
            self._live.stop()

    def tell(self, cell: Cell, stage: str) -> None:
        """A stage begins."""
        with self._lock:
            self._doing[cell.run] = stage
        self._line(f"{cell.run}: {stage}")

    def begins(self, cell: Cell) -> None:
        """A cell begins."""
        with self._lock:
            self._began[cell.run] = time.monotonic()
            self._doing.setdefault(cell.run, "begins")

    def ends(self, cell: Cell, outcome: Outcome) -> None:
        """A cell has ended."""
        with self._lock:
            self._doing.pop(cell.run, None)
            self.outcomes[cell.run] = outcome
        if outcome.state == "done":
            whole = time.monotonic() - self._began.get(cell.run, time.monotonic())
            self._seconds[cell.run] = max(whole, spent(self.runs, cell.run))
        count = f"{len(self.outcomes)} of {len(self.cells)}"
        if outcome.state != "stopped":
            error = f": {outcome.error}" if outcome.error else ""
            self._line(f"{cell.run}: {outcome.state}{error} ({count}{self._left()})")

    def tick(self) -> None:
        """Draws the table anew."""
        if self._live is not None:
            self._live.update(self._table())

    def minutes_left(self) -> float | None:
        """Returns an estimate from the finished cells of the study; None before the first."""
        with self._lock:
            known = dict(self._seconds)
            left = [cell for cell in self.cells if cell.run not in self.outcomes]
            began = dict(self._began)
        return remaining(self.cells, left, known, began, self.jobs)

    def _left(self) -> str:
        """The estimate in words; nothing where there is none."""
        left = self.minutes_left()
        if left is None or len(self.outcomes) == len(self.cells):
            return ""
        return ", less than a minute left" if left < 1 else f", about {left:.0f} min left"

    def _line(self, text: str) -> None:
        if self._live is None:
            print(harmless(text), file=self._stream, flush=True)

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        count = f"{len(self.outcomes)} of {len(self.cells)} runs"
        table = Table(
            title=Text(f"{self.study.name}: {count}{self._left()}", no_wrap=True),
            min_width=60,
        )
        table.add_column("row")
        corpora = list(dict.fromkeys(cell.corpus for cell in self.cells))
        for corpus in corpora:
            table.add_column(corpus or "runs")
        table.add_column("now")
        with self._lock:
            doing, outcomes = dict(self._doing), dict(self.outcomes)
        for row in dict.fromkeys(cell.row for cell in self.cells):
            mine = [cell for cell in self.cells if cell.row == row]
            parts = []
            for corpus in corpora:
                text = Text()
                for cell in (one for one in mine if one.corpus == corpus):
                    outcome = outcomes.get(cell.run)
                    sign = _SIGNS[outcome.state] if outcome else "▶" if cell.run in doing else "·"
                    text.append(sign, style=_STYLES.get(sign, "cyan" if sign == "▶" else "dim"))
                parts.append(text)
            now = ", ".join(
                f"{cell.corpus} s{cell.seed}: {doing[cell.run]}".strip()
                for cell in mine
                if cell.run in doing
            )
            table.add_row(row, *parts, Text(now))
        return table


def _live(stream: TextIO) -> "Live | None":
    """A display in a terminal; None elsewhere."""
    if not stream.isatty():
        return None
    from rich.console import Console
    from rich.live import Live

    return Live(console=Console(file=stream), refresh_per_second=2)


def spent(runs: Path, run: str) -> float:
    """Returns the seconds of all stages of a run; 0 where nothing is known."""
    try:
        found = results.read(runs / run / "results.json")
    except (ValueError, OSError):
        return 0.0
    return 0.0 if found is None else float(sum(found["seconds"].values()))


def remaining(
    cells: Sequence[Cell],
    left: Sequence[Cell],
    seconds: Mapping[str, float],
    began: Mapping[str, float],
    jobs: int,
) -> float | None:
    """Returns the minutes that the cells that are left will take.

    A cell takes as long as the finished ones of its row and corpus, else of its row, else all.

    Args:
        cells: all.
        left: those that have not ended.
        seconds: of those that have, by run.
        began: when those that run have begun, by run.
        jobs: cells at a time.
    """
    if not seconds:
        return None
    of = [(cell, seconds[cell.run]) for cell in cells if cell.run in seconds]
    each = []
    for cell in left:
        same = [
            [s for one, s in of if (one.row, one.corpus) == (cell.row, cell.corpus)],
            [s for one, s in of if one.row == cell.row],
            [s for _, s in of],
        ]
        known = next(found for found in same if found)
        past = time.monotonic() - began[cell.run] if cell.run in began else 0.0
        each.append(max(0.0, sum(known) / len(known) - past))
    return max([sum(each) / jobs, *each]) / 60
