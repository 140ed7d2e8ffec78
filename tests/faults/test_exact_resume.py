"""A run that is killed and started again is the one that was never killed."""

import pytest

from tests.faults.matrix import Cell, Matrix, cells

QUICK = [
    Cell("OLSA", 1, 2, 1, False, "second epoch"),
    Cell("SMART", 1, 0, 2, True, "mid-epoch"),
    Cell("EpochTextAdversary", 1, 0, 1, True, "second epoch"),
]
MORE = [
    Cell("TextClassifier", 2, 0, 1, True, "boundary"),
    Cell("TextClassifier", 1, 0, 2, True, "mid-epoch"),
    Cell("ASA", 1, 0, 2, True, "second epoch"),
    Cell("RandomTexts", 1, 0, 1, True, "mid-epoch"),
    Cell("ASA", 2, 0, 1, False, "mid-epoch"),
    Cell("FreeLB", 1, 0, 2, True, "mid-epoch"),
    Cell("TextAdversary", 1, 0, 1, True, "second epoch"),
    Cell("SMART", 2, 0, 1, False, "second epoch"),
    Cell("EpochTextAdversary", 2, 0, 2, False, "mid-epoch"),
    Cell("AMDA", 1, 0, 1, True, "second epoch"),
    Cell("MRAT", 2, 0, 1, False, "mid-epoch"),
    Cell("InfoBERT", 2, 0, 2, True, "second epoch"),
    Cell("ASCC", 1, 0, 1, True, "mid-epoch"),
    Cell("DNE", 2, 0, 2, False, "second epoch"),
    Cell("TAVAT", 2, 0, 2, True, "second epoch"),
    Cell("EncodedScores", 1, 0, 1, True, "mid-epoch"),
]


@pytest.mark.parametrize("cell", QUICK, ids=[cell.name for cell in QUICK])
def test_killed_is_as_uninterrupted(matrix: Matrix, cell: Cell) -> None:
    assert matrix.differences(cell) == []


EVERY = [*cells(), *MORE]


@pytest.mark.slow
@pytest.mark.parametrize("cell", EVERY, ids=[cell.name for cell in EVERY])
def test_in_every_combination(matrix: Matrix, cell: Cell) -> None:
    assert matrix.differences(cell) == []
