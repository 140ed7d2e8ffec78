"""The difference of two shares over the same samples."""

import random

import pytest
from statsmodels.stats.contingency_tables import mcnemar as theirs

from attacks.paired_shares import mcnemar, paired_shares


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (1, 0), (8, 2), (30, 31), (0, 9)])
def test_mcnemar_is_that_of_statsmodels(lost: int, gained: int) -> None:
    table = [[5, lost], [gained, 7]]
    assert mcnemar(lost, gained) == pytest.approx(theirs(table, exact=True).pvalue)


def test_shares_and_difference() -> None:
    first = [True] * 8 + [False] * 2
    second = [True] * 3 + [False] * 6 + [True]
    found = paired_shares(first, second)
    assert (found.lost, found.gained) == (5, 1)
    assert (found.first.value, found.second.value) == (0.8, 0.4)
    assert found.difference.value == pytest.approx(-0.4)
    # By hand: (2 - 6) / 12 and 1.96 * sqrt((8/12 - (4/12)^2) / 12).
    assert found.difference.low == pytest.approx(-1 / 3 - 1.959964 * (5 / 108) ** 0.5, abs=1e-6)
    assert found.difference.high == pytest.approx(-1 / 3 + 1.959964 * (5 / 108) ** 0.5, abs=1e-6)


@pytest.mark.long
def test_the_interval_covers_what_it_says() -> None:
    source, hits, repeats = random.Random(1), 0, 2000
    for _ in range(repeats):
        draws = [source.random() for _ in range(60)]
        # Lost with 0.2, gained with 0.05, right both times with 0.6.
        first = [u < 0.8 for u in draws]
        second = [u < 0.6 or 0.8 <= u < 0.85 for u in draws]
        found = paired_shares(first, second).difference
        hits += found.low <= -0.15 <= found.high
    assert 0.935 < hits / repeats < 0.985


def test_other_numbers_of_outcomes() -> None:
    given: list[tuple[list[bool], list[bool]]] = [([], []), ([True], [])]
    for first, second in given:
        with pytest.raises(ValueError, match="expected two of each"):
            paired_shares(first, second)
