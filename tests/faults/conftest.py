"""Machines to do faults to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.matrix import Matrix
from tests.faults.program import Machine
from tests.faults.settings import TINY

FIT = ["fit", *TINY, "--trainer.max_epochs=2"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Starts programs in an empty directory."""
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """Makes the uninterrupted runs once."""
    machine = Machine(tmp_path_factory.mktemp("matrix"))
    yield Matrix(machine)
    machine.close()


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of `FIT` without any fault."""
    machine = Machine(tmp_path_factory.mktemp("whole"))
    outcome = machine.run(FIT, "--run=whole")
    assert outcome.status == 0, outcome.err
    yield machine.where / "runs" / "whole"
    machine.close()
