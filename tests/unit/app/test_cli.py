from pathlib import Path

import pytest
import yaml

from app.cli import with_stored_settings
from app.run_directory import RunDirectory

STORED = {
    "seed_everything": 3,
    "model": {"class_path": "lit_modules.OLSA"},
    "data": {"class_path": "datamodules.Reviews"},
    "trainer": {"max_epochs": 2},
    "checkpoint": {"monitor": "val/loss"},
}


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RunDirectory(Path("runs/a")).write_config(STORED)


def inserted(*argv: str) -> set[str]:
    found = with_stored_settings(argv)
    if found == list(argv):
        return set()
    i = found.index("--config")
    assert i == 1
    assert [*found[:i], *found[i + 2 :]] == list(argv)
    content = yaml.safe_load(found[i + 1])
    assert all(content[key] == STORED[key] for key in content)
    return set(content)


@pytest.mark.parametrize(
    "argv",
    [
        ["test", "--run", "a"],
        ["test", "--run=a", "--data.batch_size=3"],
        ["certify", "--ckpt_path", "runs/a/checkpoints/best.ckpt"],
        ["predict", "--run=b", "--ckpt_path=runs/a/checkpoints/last.ckpt"],
        ["test", "--run=a", "--runs_dir=runs"],
    ],
)
def test_evaluations_take_model_and_data(argv: list[str]) -> None:
    assert inserted(*argv) == {"seed_everything", "model", "data"}


def test_training_takes_everything() -> None:
    assert inserted("train", "--run=a", "--trainer.max_epochs=5") == set(STORED)


def test_another_class_inherits_nothing() -> None:
    assert inserted("test", "--run=a", "--data=SST2") == {"seed_everything", "model"}
    assert inserted("test", "--run=a", "--model", "OLSA") == {"seed_everything", "data"}


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--help"],
        ["test"],
        ["test", "--run"],
        ["test", "--run=absent"],
        ["test", "--run=a", "--runs_dir=elsewhere"],
        ["test", "--run=a", "--config=c.yaml"],
        ["test", "--run=a", "-c", "c.yaml"],
        ["test", "--ckpt_path=other.ckpt"],
        ["fit", "--run=a", "--model=OLSA"],
        ["fit", "--run=a", "--data=Reviews"],
        ["fit", "--model=OLSA"],
    ],
)
def test_nothing_is_taken(argv: list[str]) -> None:
    assert inserted(*argv) == set()
