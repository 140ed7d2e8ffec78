"""The order of the cells: what can begin, what must wait, and what is not run any more."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol

from app.study.runner import Outcome, Stop
from app.study.study import Cell

_EVERY = 0.5
"""Seconds between two looks at a wish to stop."""


class Executor(Protocol):
    """Runs cells; each of them as `runner.run_cell` does."""

    @property
    def slots(self) -> int:
        """Number of cells that it can run at a time."""

    def submit(self, cell: Cell) -> Future[Outcome]:
        """Begins a cell; the future has an exception where the machine itself fails."""

    def close(self) -> None:
        """Ends what it has started; nothing runs any more."""


class Watch(Protocol):
    """Is told what happens."""

    def begins(self, cell: Cell) -> None:
        """A cell is given to the executor."""

    def ends(self, cell: Cell, outcome: Outcome) -> None:
        """A cell has ended, or is not run."""

    def tick(self) -> None:
        """Time has passed."""


def run_all(
    cells: Sequence[Cell], executor: Executor, watch: Watch, stop: Stop
) -> dict[str, Outcome]:
    """Runs cells, each after the run that it needs; a failed one does not stop the others.

    Args:
        cells: in the order in which they are begun where there is a choice.
        executor: runs them.
        watch: is told.
        stop: nothing new begins once somebody wishes to stop.

    Returns:
        The outcomes by the names of runs.
    """
    waiting, working = list(cells), dict[Future[Outcome], Cell]()
    outcomes: dict[str, Outcome] = {}
    known = {cell.run for cell in cells}

    def end(cell: Cell, outcome: Outcome) -> None:
        outcomes[cell.run] = outcome
        watch.ends(cell, outcome)

    while waiting or working:
        for cell in list(waiting):
            before = outcomes.get(cell.after) if cell.after in known and cell.after else None
            if stop.wished.is_set():
                waiting.remove(cell)
                end(cell, Outcome(state="stopped"))
            elif before is not None and before.state != "done":
                waiting.remove(cell)
                why = "failed" if before.state == "failed" else "was not run"
                end(cell, Outcome(state="not run", error=f"not run, because {cell.after} {why}"))
            elif len(working) < executor.slots and (before or cell.after not in known):
                waiting.remove(cell)
                watch.begins(cell)
                working[executor.submit(cell)] = cell
        done, _ = wait(working, timeout=_EVERY, return_when=FIRST_COMPLETED)
        for future in done:
            error = future.exception()
            end(working.pop(future), future.result() if error is None else _failed(error))
        watch.tick()
    return outcomes


def _failed(error: BaseException) -> Outcome:
    return Outcome(state="failed", error=f"{type(error).__name__}: {' '.join(str(error).split())}")
