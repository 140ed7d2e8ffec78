"""Is a run that was killed and started again the one that was never killed? In every combination.

    python -m tests.faults.matrix [--method OLSA] [--ranks 1] [--workers 0] [--kill mid-epoch]
        [--accelerator gpu]

For each combination, a training is killed by SIGKILL before a certain batch, started again with the
same command, and compared with one that was not killed: weights, optimiser, schedulers, random
numbers and counts in `last.ckpt` and `best.ckpt`, bit by bit, the numbers in `results.json`, and
the curves that TensorBoard shows.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.injection import KillAtHook
from tests.faults.program import Machine
from tests.faults.settings import ADVERSARIAL, ALWAYS, BATCHES, METHODS, REVIEWS, SHORT
from tests.faults.state import compare_runs

KILLS = {
    # The epochs before have saved; the batch is in the second half of a window of accumulation.
    "mid-epoch": ([ALWAYS], 5),
    "boundary": ([], BATCHES),
    "second epoch": ([ALWAYS], BATCHES + 7),
}
"""Where a run is killed: settings, and batches that are survived."""
EPOCHS = 3
GLOBAL_BATCH = 4


class Cell(NamedTuple):
    """One combination.

    Attributes:
        method: class of the module.
        ranks: processes.
        workers: of each loader.
        accumulate: batches per optimiser step.
        schedule: whether the learning rate warms up and decays.
        kill: key of `KILLS`.
    """

    method: str
    ranks: int
    workers: int
    accumulate: int
    schedule: bool
    kill: str

    @property
    def command(self) -> list[str]:
        """The command line, but for the name of the run."""
        rates = ["0.2", "linear"] if self.schedule else ["0", "none"]
        ddp = ["--trainer.strategy=ddp", f"--trainer.devices={self.ranks}"]
        return [
            "fit",
            *{**METHODS, **ADVERSARIAL}[self.method],
            f"--model.optimisation.warmup={rates[0]}",
            f"--model.optimisation.decay={rates[1]}",
            *REVIEWS,
            f"--data.batch_size={GLOBAL_BATCH // self.ranks}",
            f"--data.num_workers={self.workers}",
            *SHORT,
            f"--trainer.max_epochs={EPOCHS}",
            f"--trainer.accumulate_grad_batches={self.accumulate}",
            *(ddp if self.ranks > 1 else []),
        ]

    @property
    def name(self) -> str:
        return "-".join(map(str, self)).replace(" ", "_")


def cells() -> Iterator[Cell]:
    """All combinations of the ordinary Transformer, and half of those of OLSA."""
    for ranks, workers, accumulate, schedule, kill in product(
        (1, 2), (0, 2), (1, 2), (False, True), KILLS
    ):
        yield Cell("TextClassifier", ranks, workers, accumulate, schedule, kill)
        if schedule == (accumulate == 2):
            yield Cell("OLSA", ranks, workers, accumulate, schedule, kill)


class Matrix:
    """Runs cells; the uninterrupted runs are made once for all that share their settings.

    Args:
        machine: where.
        more: further settings of every run.
    """

    def __init__(self, machine: Machine, more: Sequence[str] = ()) -> None:
        self.machine = machine
        self.more = more
        self._whole: dict[str, Path] = {}

    def whole(self, cell: Cell) -> Path:
        """The run without interruption."""
        name = cell._replace(kill="whole").name
        if name not in self._whole:
            outcome = self._run(cell, f"--run={name}")
            assert outcome.status == 0, outcome.err
            self._whole[name] = self.machine.where / "runs" / name
        return self._whole[name]

    def differences(self, cell: Cell) -> list[str]:
        """What a kill has changed: nothing, it is hoped."""
        whole = self.whole(cell)
        settings, batches = KILLS[cell.kill]
        run = f"--run={cell.name}"
        fault = KillAtHook("on_train_batch_start", batches)
        killed = self._run(cell, settings, run, faults=[fault])
        assert killed.status == -9, killed.err
        outcome = self._run(cell, run)
        assert outcome.status == 0, outcome.err
        assert "resumes after step" in outcome.err
        return compare_runs(whole, self.machine.where / "runs" / cell.name)

    def _run(self, cell: Cell, *settings: Any, **faults: Any) -> Any:
        return self.machine.run(cell.command, self.more, *settings, ranks=cell.ranks, **faults)


def main() -> int:
    """Print a table; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--method", choices=METHODS, help="only this one")
    parser.add_argument("--ranks", type=int, choices=[1, 2], help="only so many processes")
    parser.add_argument("--workers", type=int, choices=[0, 2], help="only so many workers")
    parser.add_argument("--kill", choices=list(KILLS), help="only this one")
    parser.add_argument("--accelerator", choices=["cpu", "gpu"], default="cpu", help="of the runs")
    given = parser.parse_args()
    kills = [given.kill] if given.kill else list(KILLS)
    more = [f"--trainer.accelerator={given.accelerator}"]
    if given.accelerator == "gpu":
        # Some operations of CUDA add up in any order; those that can are told not to.
        more.append("--trainer.deterministic=warn")
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    chosen = [
        cell
        for cell in cells()
        if given.method in (None, cell.method)
        and given.ranks in (None, cell.ranks)
        and given.workers in (None, cell.workers)
        and cell.kill in kills
    ]
    failed = 0
    with tempfile.TemporaryDirectory() as where:
        machine = Machine(Path(where))
        matrix = Matrix(machine, more)
        print("| method | processes | workers | accumulation | schedule |", " | ".join(kills), "|")
        print("|---" * (5 + len(kills)) + "|")
        for row in dict.fromkeys(cell._replace(kill="") for cell in chosen):
            words = [f"{row.method} | {row.ranks} | {row.workers} | {row.accumulate}"]
            words.append("warm-up, decay" if row.schedule else "none")
            for kill in kills:
                found = matrix.differences(row._replace(kill=kill))
                failed += bool(found)
                words.append(f"{len(found)} differ: {found[0]}" if found else "identical")
            print("|", " | ".join(words), "|", flush=True)
    print(f"\n{len(chosen) - failed} of {len(chosen)} identical to the run without interruption")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
