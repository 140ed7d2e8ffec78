"""A run that is resumed with other threads, or in another precision, says so."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from run_files.run_directory import RunDirectory
from tests.integration.conftest import OLSA, REVIEWS, TINY, Steadfast
from training.arithmetic import recorded_threads

FIT = ["fit", *OLSA, *REVIEWS, *TINY, "--run=a"]
WARNING = "resumed with another arithmetic"


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def test_other_threads_are_one_line(here: Path, steadfast: Steadfast, threads: int) -> None:
    run = RunDirectory(here / "runs" / "a")
    assert recorded_threads(run) is None
    outcome = steadfast(FIT, "--trainer.max_epochs=1")
    assert (outcome.status, WARNING in outcome.err) == (0, False)
    assert recorded_threads(run) == threads
    outcome = steadfast(FIT, "--trainer.max_epochs=2")
    assert (outcome.status, WARNING in outcome.err) == (0, False)
    torch.set_num_threads(threads + 2)
    outcome = steadfast(FIT, "--trainer.max_epochs=3")
    assert outcome.status == 0
    (line,) = [line for line in outcome.err.splitlines() if WARNING in line]
    change = f"threads: {threads + 2}, before {threads}, OMP_NUM_THREADS={threads} to repeat it"
    assert change in line
    # What it continued with is what the next one is compared with.
    assert recorded_threads(run) == threads + 2


def test_another_precision_is_one_line(here: Path, steadfast: Steadfast) -> None:
    assert steadfast(FIT, "--trainer.max_epochs=1").status == 0
    outcome = steadfast(FIT, "--trainer.max_epochs=2", "--trainer.precision=bf16-mixed")
    assert outcome.status == 0
    (line,) = [line for line in outcome.err.splitlines() if WARNING in line]
    assert re.search(
        r"\(precision: bf16-mixed, before 32-true, --trainer.precision 32-true to repeat it\)", line
    )
