"""Driving the real command line on tiny data."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import entry

ROOT = Path(__file__).parents[2]
QUIET = [
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
TINY = [*QUIET, "--trainer.limit_val_batches=1", "--trainer.limit_test_batches=1"]
OLSA = ["--model=OLSA", "--model.width=8", "--model.heads=2"]
REVIEWS = ["--data=Reviews", "--data.limit_train=64", "--data.batch_size=16"]
ATTACK = ["--pgd.steps=2"]


@pytest.fixture(autouse=True)
def _report(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the page after `train`: its charts take a quarter of the time of a tiny run."""
    if request.node.get_closest_marker("report") is None:
        monkeypatch.setattr("app.cli.robust_cli._report", lambda run: None)


@dataclass(frozen=True)
class Outcome:
    """What a shell would see."""

    status: int
    out: str
    err: str


Steadfast = Callable[..., Outcome]


def results(run: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path("runs") / run / "results.json").read_text())
    return content


def lines(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.fixture
def steadfast(capfd: pytest.CaptureFixture[str]) -> Steadfast:
    """Run one command line in this process, which saves the seconds of importing torch."""

    def run(*args: str | Sequence[str]) -> Outcome:
        flat = [word for arg in args for word in ([arg] if isinstance(arg, str) else arg)]
        capfd.readouterr()
        try:
            status = entry(flat)
        finally:
            os.environ.pop("PL_GLOBAL_SEED", None)
        out, err = capfd.readouterr()
        return Outcome(status, out, err)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained")
    before = Path.cwd()
    os.chdir(path)
    try:
        every = "--trainer.log_every_n_steps=1"
        args = [
            "train",
            *OLSA,
            *REVIEWS,
            *TINY,
            *ATTACK,
            every,
            "--trainer.max_epochs=2",
            "--run=done",
        ]
        assert entry(args) == 0
    finally:
        os.chdir(before)
        os.environ.pop("PL_GLOBAL_SEED", None)
    return path / "runs"


@pytest.fixture
def trained(here: Path, _trained: Path) -> Path:
    """A copy of a finished run `done` of OLSA on the reviews, in the working directory."""
    shutil.copytree(_trained, here / "runs")
    return here / "runs" / "done"
