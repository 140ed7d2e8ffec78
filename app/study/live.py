"""Shows the progress of a study: a live table in a terminal, lines elsewhere."""

import contextlib
import heapq
import math
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from app.study.runner import CellOutcome
from app.study.study import Cell, Study
from run_files import results
from run_files.terminal import harmless

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_SIGNS = {"done": "✓", "failed": "✗", "not run": "–", "stopped": "‖"}
_STYLES = {"✓": "green", "✗": "red", "–": "yellow", "‖": "yellow", "▶": "cyan", "·": "dim"}


class StudyProgress:
    """Receives the events of the cells, from several threads, and shows them on standard error."""

    def __init__(self, study: Study, cells: Sequence[Cell], runs: Path, jobs: int) -> None:
        self.study, self.cells, self.runs, self.jobs = study, cells, runs, jobs
        self.outcomes: dict[str, CellOutcome] = {}
        self._stages: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self._lock = threading.Lock()
        self._live: Live | None = None
        # A live table would fill a log file with control characters.
        if sys.stderr.isatty():
            from rich import console, live

            self._live = live.Live(console=console.Console(file=sys.stderr), refresh_per_second=2)

    def __enter__(self) -> "StudyProgress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self.tick()
            self._live.stop()

    def tell(self, cell: Cell, stage: str) -> None:
        """Show the start of a stage."""
        with self._lock:
            self._stages[cell.run] = stage
        self._line(f"{cell.run}: {stage}")

    def begins(self, cell: Cell) -> None:
        """Show the start of a cell."""
        with self._lock:
            self._began[cell.run] = time.monotonic()
            self._stages.setdefault(cell.run, "begins")

    def ends(self, cell: Cell, outcome: CellOutcome) -> None:
        """Show the end of a cell."""
        with self._lock:
            self._stages.pop(cell.run, None)
            self.outcomes[cell.run] = outcome
        if outcome.state == "done":
            seconds = time.monotonic() - self._began.get(cell.run, time.monotonic())
            # A resumed run took longer than its last part.
            self._seconds[cell.run] = max(seconds, spent(self.runs, cell.run))
        count = f"{len(self.outcomes)} of {len(self.cells)}"
        if outcome.state != "stopped":
            error = f": {outcome.error}" if outcome.error else ""
            self._line(f"{cell.run}: {outcome.state}{error} ({count}{self._estimate()})")

    def tick(self) -> None:
        """Draw the table again."""
        if self._live is not None:
            self._live.update(self._table())

    def _estimate(self) -> str:
        """Return the remaining time as text; "" before the first cell has ended, and at the end."""
        with self._lock:
            waiting = [cell for cell in self.cells if cell.run not in self.outcomes]
            past = {run: time.monotonic() - start for run, start in self._began.items()}
            left = remaining(self.cells, waiting, self._seconds, past, self.jobs)
        return "" if left is None or not waiting else f", {left}"

    def _line(self, text: str) -> None:
        if self._live is None:
            print(harmless(text), file=sys.stderr, flush=True)

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        count = f"{len(self.outcomes)} of {len(self.cells)} runs"
        title = Text(f"{self.study.name}: {count}{self._estimate()}", no_wrap=True)
        table = Table(title=title, min_width=60)
        table.add_column("row")
        corpora = list(dict.fromkeys(cell.corpus for cell in self.cells))
        for corpus in corpora:
            table.add_column(corpus or "runs")
        table.add_column("now")
        # Other threads change them while the table is drawn.
        with self._lock:
            stages, outcomes = dict(self._stages), dict(self.outcomes)
        for row in dict.fromkeys(cell.row for cell in self.cells):
            cells = [cell for cell in self.cells if cell.row == row]
            columns = {corpus: Text() for corpus in corpora}
            for cell in cells:
                outcome = outcomes.get(cell.run)
                sign = _SIGNS[outcome.state] if outcome else "▶" if cell.run in stages else "·"
                columns[cell.corpus].append(sign, style=_STYLES[sign])
            now = [
                f"{cell.corpus} s{cell.seed}: {stages[cell.run]}".strip()
                for cell in cells
                if cell.run in stages
            ]
            table.add_row(row, *columns.values(), Text(", ".join(now)))
        return table


def spent(runs: Path, run: str) -> float:
    """Return the seconds of all stages of a run; 0 if unknown."""
    with contextlib.suppress(ValueError, OSError):
        if (content := results.read(runs / run / "results.json")) is not None:
            return float(sum(content["seconds"].values()))
    return 0.0


class Remaining(NamedTuple):
    """The time that is left, by a schedule of the remaining cells."""

    minutes: float
    least: bool  # True if it may be far longer: no cell like one of these has ended yet

    def __str__(self) -> str:
        if self.least:
            return f"at least {max(1, math.ceil(self.minutes))} min left"
        minutes = "less than a minute" if self.minutes < 1 else f"about {self.minutes:.0f} min"
        return f"{minutes} left"


def remaining(
    cells: Sequence[Cell],
    waiting: Sequence[Cell],
    seconds: Mapping[str, float],
    past: Mapping[str, float],
    jobs: int,
) -> Remaining | None:
    """Return the time that `waiting` cells will take; None before the first cell has ended.

    `seconds` are those of the finished cells, `past` those since the start of the running ones. A
    cell takes as long as the finished ones of its row and corpus, else of its row. Of another row
    nothing is known, as rows are different models: it takes at least the mean of all.
    """
    if not seconds:
        return None
    finished = [(cell, seconds[cell.run]) for cell in cells if cell.run in seconds]
    least, ends = False, dict[str, float]()
    running = [cell for cell in waiting if cell.run in past]
    # The times at which the slots are free; a cell takes the first one.
    slots = [0.0] * max(jobs, len(running))
    for cell in [*running, *(cell for cell in waiting if cell.run not in past)]:
        row = [s for c, s in finished if c.row == cell.row]
        similar = [s for c, s in finished if (c.row, c.corpus) == (cell.row, cell.corpus)] or row
        spent_now = past.get(cell.run, 0.0)
        expected = mean(similar or [s for _, s in finished])
        # One that takes longer than expected is expected to take as long again as it is late.
        late = spent_now > expected
        least = least or late or not similar
        length = spent_now - expected if late else expected - spent_now
        begins = heapq.heappop(slots)
        if cell.after is not None:
            begins = max(begins, ends.get(cell.after, 0.0))
        ends[cell.run] = begins + length
        heapq.heappush(slots, ends[cell.run])
    return Remaining(max(ends.values(), default=0.0) / 60, least)
