"""Damaged checkpoints: the one before is used and said so, or nothing is touched."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import FIT
from tests.faults.injection import KillAtHook
from tests.faults.program import Machine
from tests.faults.settings import ALWAYS
from tests.faults.state import compare_runs, flip, left_over, step

DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1000]),
    "one bit": flip,
    "one bit of the checksum": lambda path: flip(path, where=0.999999),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "removed": lambda path: path.unlink(),
}
QUICK = {"one bit", "removed"}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in its second epoch."""
    machine = Machine(tmp_path_factory.mktemp("killed"))
    fault = KillAtHook("on_train_batch_start", calls=16)
    outcome = machine.run(FIT, "--run=a", ALWAYS, faults=[fault])
    assert outcome.status == -9, outcome.err
    return machine.where / "runs" / "a"


@pytest.fixture
def killed(machine: Machine, once: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(once, machine.where / "runs" / "a"))


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DAMAGES],
)
def test_the_one_before_is_used(machine: Machine, killed: Path, whole: Path, name: str) -> None:
    assert (step(killed, "previous"), step(killed)) == (15, 16)
    DAMAGES[name](killed / "checkpoints" / "last.ckpt")
    outcome = machine.run(FIT, "--run=a")
    assert outcome.status == 0, outcome.err
    assert "going on from runs/a/checkpoints/previous.ckpt instead" in outcome.err
    assert compare_runs(whole, killed) == []
    kept = [] if name == "removed" else ["checkpoints/damaged.ckpt"]
    assert left_over(killed) == kept


def test_all_damaged(machine: Machine, killed: Path) -> None:
    for name in ("last", "previous"):
        flip(killed / "checkpoints" / f"{name}.ckpt")
    before = {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()}
    outcome = machine.run(FIT, "--run=a")
    assert outcome.status == 1
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "run 'a' has no undamaged checkpoint to resume" in errors[0]
    assert "Traceback" not in outcome.err
    assert {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()} == before


def test_an_evaluation_refuses_a_damaged_checkpoint(machine: Machine, killed: Path) -> None:
    flip(killed / "checkpoints" / "best.ckpt")
    outcome = machine.run("test", "--run=a")
    assert outcome.status == 1
    assert "best.ckpt, which cannot be read" in outcome.err
    assert not (killed / "results.json").exists()
