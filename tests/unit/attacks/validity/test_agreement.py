"""Krippendorff's alpha against his own worked example."""

import itertools
import random

import pytest

from attacks.validity.agreement import krippendorff

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), part C: four observers, twelve
# units, missing data (0). His results: 0.743 nominal, 0.815 ordinal, 0.849 interval.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]
UNITS = [[value or None for value in unit] for unit in zip(*OBSERVERS, strict=True)]


@pytest.mark.parametrize(
    ("scale", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_the_published_example(scale: str, expected: float) -> None:
    found = krippendorff(UNITS, scale)  # type: ignore[arg-type] # a name of the table
    assert found == pytest.approx(expected, abs=5e-4)


def test_two_observers_and_two_values_of_the_same_paper() -> None:
    # Part A: binary data of ten units; alpha is 0.095.
    first = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    second = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff([*zip(first, second, strict=True)]) == pytest.approx(0.095, abs=5e-4)


def test_all_pairs_one_by_one() -> None:
    source = random.Random(0)
    units = [[source.choice([None, 1, 2, 4]) for _ in range(4)] for _ in range(30)]
    rated = [[v for v in unit if v is not None] for unit in units]
    rated = [unit for unit in rated if len(unit) > 1]
    everything = [value for unit in rated for value in unit]
    observed = sum(
        (a - b) ** 2 / (len(unit) - 1) for unit in rated for a, b in itertools.permutations(unit, 2)
    ) / len(everything)
    expected = sum((a - b) ** 2 for a, b in itertools.permutations(everything, 2)) / (
        len(everything) * (len(everything) - 1)
    )
    assert krippendorff(units, "interval") == pytest.approx(1 - observed / expected)


def test_ends() -> None:
    assert krippendorff([["a", "a"], ["b", "b", "b"]]) == 1
    assert krippendorff([["a", "a"], ["a", "a"]]) is None
    assert krippendorff([["a", None], ["b"], []]) is None
    opposed = krippendorff([["a", "b"]] * 10)
    assert opposed is not None
    assert opposed < 0
