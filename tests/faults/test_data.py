"""Data that change under a run are noticed; data that move are not minded."""

import shutil
from pathlib import Path

import pytest

from datamodules.sources.reviews_grammar import generate
from tests.faults.injection import KillAtHook
from tests.faults.program import Machine
from tests.faults.settings import ALWAYS, BATCHES, SHORT, TRANSFORMER
from tests.faults.state import compare_runs

FILES = [
    "fit",
    *TRANSFORMER,
    "--data=TextFiles",
    "--data.train=train.tsv",
    "--data.validation=validation.tsv",
    "--data.batch_size=4",
    *SHORT,
    "--trainer.max_epochs=2",
]


@pytest.fixture
def killed(machine: Machine) -> Path:
    """A run on files in `here/` that was killed in its second epoch, beside a whole one."""
    rows = list(generate(0, 60))
    (machine.where / "here").mkdir()
    for name, part in (("train", rows[:50]), ("validation", rows[50:])):
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in part)]
        (machine.where / "here" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    assert machine.run(FILES, "--data.data_dir=here", "--run=whole").status == 0
    fault = KillAtHook("on_train_batch_start", calls=BATCHES + 5)
    outcome = machine.run(FILES, "--data.data_dir=here", "--run=a", ALWAYS, faults=[fault])
    assert outcome.status == -9, outcome.err
    return machine.where / "runs" / "a"


def test_changed_and_put_back(machine: Machine, killed: Path) -> None:
    before = (killed / "checkpoints" / "last.ckpt").read_bytes()
    for name in ("train", "validation"):
        path = machine.where / "here" / f"{name}.tsv"
        content = path.read_bytes()
        # The last letter of the last text.
        at = content.rindex(b"\t") - 2
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        outcome = machine.run(FILES, "--data.data_dir=here", "--run=a")
        assert outcome.status == 1
        line = outcome.err.splitlines()[-1]
        assert line.startswith("error: got other training data")
        assert f"{name} rows" in line
        assert (killed / "checkpoints" / "last.ckpt").read_bytes() == before
        path.write_bytes(content)
    outcome = machine.run(FILES, "--data.data_dir=here", "--run=a")
    assert outcome.status == 0, outcome.err
    assert compare_runs(killed.with_name("whole"), killed) == []


def test_moved(machine: Machine, killed: Path) -> None:
    shutil.move(machine.where / "here", machine.where / "there")
    outcome = machine.run(FILES, "--data.data_dir=there", "--run=a")
    assert outcome.status == 0, outcome.err
    assert compare_runs(killed.with_name("whole"), killed) == []
