"""A run that is killed and started again is the one that was never killed."""

import pytest

from tests.faults.matrix import Cell, Matrix, cells

QUICK = [
    Cell("TextClassifier", 1, 0, 2, True, "mid-epoch"),
    Cell("OLSA", 1, 2, 1, False, "second epoch"),
    Cell("TextClassifier", 2, 0, 1, True, "boundary"),
]


@pytest.mark.parametrize("cell", QUICK, ids=[cell.name for cell in QUICK])
def test_killed_is_as_uninterrupted(matrix: Matrix, cell: Cell) -> None:
    assert matrix.differences(cell) == []


@pytest.mark.slow
@pytest.mark.parametrize("cell", list(cells()), ids=[cell.name for cell in cells()])
def test_in_every_combination(matrix: Matrix, cell: Cell) -> None:
    assert matrix.differences(cell) == []
