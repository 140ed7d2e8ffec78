"""Many random SIGKILLs over one training, which has to end as if nothing had happened.

    python -m tests.faults.kills [--kills 100] [--ranks 1] [--seed 0]

`train` (fit, test under attack, certify) is run once without interruption. Then the same command is
started under another name, killed at a random time, started again, and so on until it has been
killed so many times; then it may end. Whenever it is killed, what lies on the disk is looked
through; at the end, weights, optimiser, random numbers, metrics, certificates and curves are
compared bit by bit.

Three of four kills come at a random time, every fourth (once the fit has ended, every second) a few
milliseconds into the phase that was hit least so far. Every tenth start is a new interpreter; the
others are forks of one that has loaded the program, in which it notes the phase it is in.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from run_files.results import read
from tests.faults.injection import Phases
from tests.faults.program import Machine, Outcome, Program
from tests.faults.settings import QUIET, TRANSFORMER
from tests.faults.state import compare_runs, damage, left_over, step

IN_FIT = ("start", "data", "restoring", "training", "checkpoint", "validation")
IN_EVALUATION = ("start", "data", "restoring", "test", "certify", "results")
COLD = "new interpreter"
FIT_SHARE = 0.7
"""Share of the kills that are to fall into the fit."""
LOADING = 4.0
"""Seconds that a new interpreter is given to load the program."""


def command(ranks: int, epochs: int) -> list[str]:
    """A training with everything: dropout, accumulation, schedule, workers, several checkpoints."""
    return [
        "train",
        *TRANSFORMER,
        "--data=Reviews",
        "--data.limit_train=300",
        f"--data.batch_size={8 // ranks}",
        "--data.num_workers=2",
        *QUIET,
        f"--trainer.max_epochs={epochs}",
        "--trainer.accumulate_grad_batches=2",
        "--trainer.log_every_n_steps=5",
        *([f"--trainer.devices={ranks}", "--trainer.strategy=ddp"] if ranks > 1 else []),
        "--pgd.steps=20",
        # Three checkpoints a second.
        "--checkpoint_every_n_minutes=0.005",
    ]


@dataclass
class Record:
    """What has happened so far.

    Attributes:
        kills: by the phase in which the program was.
        starts: of the program.
        trouble: what should not have been.
    """

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    trouble: list[str] = field(default_factory=list)


class Killer:
    """Trains one run under fire.

    Args:
        machine: where.
        arguments: the command line, without the name of the run.
        ranks: processes.
        seed: of the times.
    """

    def __init__(self, machine: Machine, arguments: list[str], *, ranks: int, seed: int) -> None:
        self.machine = machine
        self.arguments = arguments
        self.ranks = ranks
        self.random = random.Random(seed)
        self.record = Record()
        self.phase_file = machine.where / "phase"
        self.total = 0
        self.start_seconds = self.fit_seconds = 0.0
        self.evaluation_seconds: dict[str, float] = {}

    def start(self, name: str, *, cold: bool = False, aim: str = "") -> Program:
        """Start the command, to be killed a few milliseconds into a phase if one is named."""
        self.record.starts += 1
        self.phase_file.write_text("")
        times = self.random.randrange(3) if aim in ("training", "checkpoint", "test") else 0
        after = self.random.uniform(0, 0.01)
        fault = Phases(str(self.phase_file), kill_in=aim, times=times, after=after)
        return self.machine.start(
            self.arguments,
            f"--run={name}",
            ranks=self.ranks,
            cold=cold,
            faults=[] if cold else [fault],
        )

    def phase(self) -> str:
        """What the program is doing."""
        return self.phase_file.read_text().strip() or "start"

    def whole(self) -> Path:
        """The run without interruption, which also tells how long everything takes."""
        self.machine.run("--version")  # the server has loaded the program when this returns
        began = time.monotonic()
        program = self.start("whole")
        while self.phase() in ("start", "data") and program.running():
            time.sleep(0.001)
        self.start_seconds = time.monotonic() - began
        outcome = program.ended()
        if outcome.status != 0:
            raise RuntimeError(outcome.err)
        run = self.machine.where / "runs" / "whole"
        found = read(run / "results.json")
        assert found is not None
        self.fit_seconds = found["seconds"]["fit"]
        self.evaluation_seconds = {name: found["seconds"][name] for name in ("test", "certify")}
        self.total = step(run)
        return run

    def under_fire(self, run: Path, kills: int) -> None:
        """Start and kill, `kills` times; then let it end."""
        # Long enough that the training gets through in so many sittings; corrected on the way.
        sittings = max(FIT_SHARE * kills, 6.0)
        horizon = 2 * (self.start_seconds + self.fit_seconds / sittings)
        done = 0
        for number in range(1, kills + 1):
            cold = number % 10 == 0
            saved = (run / "checkpoints" / "last.ckpt").exists()
            if pending := self._pending(run):
                horizon = self.start_seconds + 0.4 * pending
            aim = ""
            wait = self.random.uniform(0, horizon)
            if cold:  # which needs longer until it does anything
                wait += LOADING
            elif saved and number % (2 if pending else 4) == 0:
                phases = IN_EVALUATION if pending else IN_FIT
                aim = min(phases, key=lambda phase: self.record.kills[phase])
                wait = 2 * horizon
            program = self.start(run.name, cold=cold, aim=aim)
            self._wait(program, wait, fitting=not (pending or cold))
            phase = COLD if cold else self.phase()
            outcome = program.kill()
            if outcome.status != -signal.SIGKILL:
                self._ended(outcome)
                return
            self.record.kills[phase] += 1
            print(f"{number} {phase} {done}/{self.total} {wait:.2f}", file=sys.stderr)
            self._look(run)
            if (run / "checkpoints" / "last.ckpt").exists():
                now = step(run)
                if now < done:
                    self.record.trouble.append(f"kill {number}: step {done} -> {now}")
                done = now
            behind = done / self.total < number / sittings
            horizon *= 1.1 if behind else 0.9
        self._ended(self.start(run.name).ended())

    def _ended(self, outcome: Outcome) -> None:
        """It has ended by itself; or the one before was killed when all was written."""
        if outcome.status != 0 and "is finished" not in outcome.err:
            self.record.trouble.append(outcome.err)

    def _wait(self, program: Program, seconds: float, *, fitting: bool) -> None:
        """Wait; where the fit ends meanwhile, not so long that the evaluations end, too."""
        end = time.monotonic() + seconds
        while program.running() and (now := time.monotonic()) < end:
            if fitting and self.phase() in ("test", "certify"):
                most = 0.4 * sum(self.evaluation_seconds.values())
                end, fitting = min(end, now + self.random.uniform(0, most)), False
            time.sleep(0.002)

    def _pending(self, run: Path) -> float:
        """Seconds that the evaluations will take, once the fit has ended."""
        results = read(run / "results.json")
        if results is None:
            return 0.0
        return sum(
            s for name, s in self.evaluation_seconds.items() if name not in results["seconds"]
        )

    def _look(self, run: Path) -> None:
        self.record.trouble += damage(run)
        # A killed process leaves at most what it was writing; the next one clears that away.
        parts = [name for name in left_over(run) if name.startswith("checkpoints/")]
        if len(parts) > 1:
            self.record.trouble.append(f"left over: {parts}")


def survive(
    machine: Machine, kills: int, *, ranks: int = 1, seed: int = 0, epochs: int = 150
) -> tuple[Record, list[str]]:
    """Kill a training so many times.

    Returns:
        What happened, and where the result differs from the training without interruption.
    """
    killer = Killer(machine, command(ranks, epochs), ranks=ranks, seed=seed)
    whole = killer.whole()
    differences: list[str] = []
    attempt = 0
    # A run that ends before its last kill is followed by another.
    while (left := kills - killer.record.kills.total()) > 0:
        run = machine.where / "runs" / f"killed{attempt}"
        killer.under_fire(run, left)
        differences += compare_runs(whole, run)
        killer.record.trouble += [f"left over: {name}" for name in left_over(run)]
        attempt += 1
    return killer.record, differences


def main() -> int:
    """Print what happened; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="how many")
    parser.add_argument("--ranks", type=int, default=1, help="processes, killed together")
    parser.add_argument("--epochs", type=int, default=150, help="length of the training")
    parser.add_argument("--seed", type=int, default=0, help="of the times of the kills")
    parser.add_argument("--keep", type=Path, help="directory in which everything is left")
    given = parser.parse_args()
    where = Path(tempfile.mkdtemp()) if given.keep is None else given.keep
    where.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    machine = Machine(where)
    try:
        record, differences = survive(
            machine, given.kills, ranks=given.ranks, seed=given.seed, epochs=given.epochs
        )
    finally:
        machine.close()
        if given.keep is None:
            shutil.rmtree(where)
    print("| the program was killed in | times |\n|---|---|")
    for phase in dict.fromkeys((*IN_FIT, *IN_EVALUATION, COLD)):
        print(f"| {phase} | {record.kills[phase]} |")
    print(f"| all | {record.kills.total()} |\n")
    print(f"{record.starts} starts, {time.monotonic() - began:.0f} s")
    print(f"found damaged or left behind: {record.trouble or 'nothing'}")
    print(f"differs from the run without interruption: {differences or 'nothing'}")
    return int(bool(record.trouble or differences))


if __name__ == "__main__":
    sys.exit(main())
