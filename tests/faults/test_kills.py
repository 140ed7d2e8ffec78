"""Killed at random times, again and again; `python -m tests.faults.kills` prints the table."""

import os

import pytest

from tests.faults.kills import survive
from tests.faults.program import Machine


def test_a_few_kills(machine: Machine) -> None:
    record, differences = survive(machine, 2, epochs=4)
    assert record.trouble == []
    assert differences == []
    assert record.kills.total() >= 2


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_many_kills(machine: Machine, ranks: int) -> None:
    kills = int(os.environ.get("STEADFAST_KILLS", "100"))
    record, differences = survive(machine, kills, ranks=ranks)
    print(f"{kills} kills with {ranks} process(es): {dict(record.kills)}")
    assert record.trouble == []
    assert differences == []
