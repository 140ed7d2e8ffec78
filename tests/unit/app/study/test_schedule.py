import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from app.study import live
from app.study.runner import CellOutcome, Stop
from app.study.schedule import run_all
from app.study.study import Cell

DONE = CellOutcome(state="done")


def cell(name: str, after: str | None = None) -> Cell:
    return Cell(
        row=name, corpus="", seed=0, run=name, config=(), settings={}, stages=(), after=after
    )


class Machine:
    """An executor whose work is a function."""

    def __init__(self, slots: int, work: Callable[[Cell], CellOutcome]) -> None:
        self.slots, self.work = slots, work
        self.began: list[str] = []
        self.now = self.most = 0
        self._pool, self._lock = ThreadPoolExecutor(slots), threading.Lock()

    def submit(self, one: Cell) -> Future[CellOutcome]:
        return self._pool.submit(self._run, one)

    def close(self) -> None:
        self._pool.shutdown()

    def _run(self, one: Cell) -> CellOutcome:
        with self._lock:
            self.began.append(one.run)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return self.work(one)
        finally:
            with self._lock:
                self.now -= 1


class Told:
    def __init__(self) -> None:
        self.ended: list[str] = []

    def begins(self, one: Cell) -> None:
        pass

    def ends(self, one: Cell, outcome: CellOutcome) -> None:
        self.ended.append(f"{one.run} {outcome.state}")

    def tick(self) -> None:
        pass


def run(machine: Machine, *cells: Cell, stop: Stop | None = None) -> dict[str, CellOutcome]:
    try:
        return run_all(cells, machine, Told(), stop or Stop())
    finally:
        machine.close()


def test_a_cell_waits_for_the_run_that_it_needs() -> None:
    ended: list[str] = []

    def work(one: Cell) -> CellOutcome:
        assert one.after is None or one.after in ended
        time.sleep(0.01)
        ended.append(one.run)
        return DONE

    machine = Machine(3, work)
    found = run(machine, cell("c", "b"), cell("b", "a"), cell("a"), cell("d"), cell("e", "a"))
    assert {outcome.state for outcome in found.values()} == {"done"}
    assert 2 <= machine.most <= 3


def test_a_failed_cell_stops_only_what_needs_it() -> None:
    def work(one: Cell) -> CellOutcome:
        if one.run == "crash":
            msg = "no machine"
            raise RuntimeError(msg)
        return CellOutcome(state="failed", error="fit: bad") if one.run == "a" else DONE

    machine = Machine(2, work)
    found = run(machine, cell("a"), cell("b", "a"), cell("c", "b"), cell("d"), cell("crash"))
    assert found["a"].error == "fit: bad"
    assert found["b"] == CellOutcome(state="not run", error="not run, because a failed")
    assert found["c"] == CellOutcome(state="not run", error="not run, because b was not run")
    assert found["d"] == DONE
    assert found["crash"] == CellOutcome(state="failed", error="RuntimeError: no machine")
    assert "b" not in machine.began


def test_nothing_new_begins_after_a_wish_to_stop() -> None:
    stop = Stop()

    def work(one: Cell) -> CellOutcome:
        stop.wish()
        return CellOutcome(state="stopped")

    machine = Machine(1, work)
    found = run(machine, cell("a"), cell("b"), cell("c", "a"), stop=stop)
    assert machine.began == ["a"]
    assert {outcome.state for outcome in found.values()} == {"stopped"}


def test_never_more_than_there_are_slots() -> None:
    machine = Machine(2, lambda one: DONE)
    run(machine, *[cell(str(i)) for i in range(20)])
    assert len(machine.began) == 20
    assert machine.most <= 2


@pytest.mark.parametrize(("jobs", "minutes"), [(1, 5.0), (2, 3.0)])
def test_minutes_left(jobs: int, minutes: float) -> None:
    def of(row: str, corpus: str, seed: int) -> Cell:
        return Cell(
            row=row, corpus=corpus, seed=seed, run=f"{row}{corpus}{seed}", config=(), settings={},
            stages=(),
        )  # fmt: skip

    every = [of("a", "x", 0), of("a", "x", 1), of("a", "y", 0), of("b", "x", 0)]
    assert live.remaining(every, every, {}, {}, jobs) is None
    # As long as that of the same row and corpus: 1; of the same row: 2 on the mean; of all 2.
    known = {"ax0": 60.0, "ay0": 180.0}
    left = [of("a", "x", 1), of("a", "z", 0), of("b", "x", 0)]
    found = live.remaining(every, left, known, {}, jobs)
    assert found is not None
    assert found.least, "no run of row b has ended"
    assert found.minutes == pytest.approx(minutes)
