"""Decides which cells start, which wait for another one, and which are not run any more."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol

from app.study.runner import CellOutcome, Stop
from app.study.study import Cell

_INTERVAL = 0.5
"""Seconds between two checks of the wish to stop."""


class Executor(Protocol):
    """Runs each cell as `runner.run_cell` does."""

    @property
    def slots(self) -> int:
        """Number of cells that it can run at a time."""

    def submit(self, cell: Cell) -> Future[CellOutcome]:
        """Start a cell; the future has an exception if the machine itself fails."""

    def close(self) -> None:
        """End all cells that still run."""


class Watch(Protocol):
    """Receives the events."""

    def begins(self, cell: Cell) -> None:
        """Handle the start of a cell."""

    def ends(self, cell: Cell, outcome: CellOutcome) -> None:
        """Handle the end of a cell, also of one that is not run."""

    def tick(self) -> None:
        """Redraw after some time."""


def run_all(
    cells: Sequence[Cell], executor: Executor, watch: Watch, stop: Stop
) -> dict[str, CellOutcome]:
    """Run cells, each after the run that it needs, and return the outcomes by the names of runs.

    A failed cell does not stop the others. After a wish to stop, nothing new starts.
    """
    waiting, working = list(cells), dict[Future[CellOutcome], Cell]()
    outcomes: dict[str, CellOutcome] = {}
    runs = {cell.run for cell in cells}

    def end(cell: Cell, outcome: CellOutcome) -> None:
        outcomes[cell.run] = outcome
        watch.ends(cell, outcome)

    while waiting or working:
        # A copy, as cells leave the list.
        for cell in list(waiting):
            # A run outside of `cells` is expected to have ended.
            before = outcomes.get(cell.after) if cell.after in runs and cell.after else None
            if stop.wished.is_set():
                waiting.remove(cell)
                end(cell, CellOutcome(state="stopped"))
            elif before is not None and before.state != "done":
                waiting.remove(cell)
                why = "failed" if before.state == "failed" else "was not run"
                end(
                    cell, CellOutcome(state="not run", error=f"not run, because {cell.after} {why}")
                )
            elif len(working) < executor.slots and (before or cell.after not in runs):
                waiting.remove(cell)
                watch.begins(cell)
                working[executor.submit(cell)] = cell
        done, _ = wait(working, timeout=_INTERVAL, return_when=FIRST_COMPLETED)
        for future in done:
            cell, error = working.pop(future), future.exception()
            if error is None:
                end(cell, future.result())
            else:
                text = f"{type(error).__name__}: {' '.join(str(error).split())}"
                end(cell, CellOutcome(state="failed", error=text))
        watch.tick()
    return outcomes
