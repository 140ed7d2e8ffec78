"""Comparisons of methods, against brute force."""

from itertools import product
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from scipy.stats import t
from torchmetrics.functional.regression import spearman_corrcoef

from benchmarks.significance import Score, compared, ratio, scored, sign_flips, spearman
from lit_modules.shared.scores import EntityF1


def test_sign_flips_are_all_sums() -> None:
    differences = [0.3, -0.1, 0.25, 0.4]
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in flips(4)]
    expected = sum(abs(one) >= abs(sum(differences)) - 1e-12 for one in sums) / 16
    assert sign_flips(differences) == expected
    assert sign_flips([0.5, 0.1, 0.9]) == 0.25  # the least that three seeds can say
    assert sign_flips([0.0, 0.0]) == 1


def flips(n: int) -> list[tuple[int, ...]]:
    return list(product((-1, 1), repeat=n))


def test_ratios_without_each() -> None:
    above, below = [2.0, 0.0, 1.0, 4.0], [3.0, 1.0, 2.0, 4.0]
    one = ratio(above, below)
    assert one.value == 0.7
    for i in range(4):
        rest = [k for k in range(4) if k != i]
        expected = sum(above[k] for k in rest) / sum(below[k] for k in rest)
        assert one.without_each[i] == pytest.approx(expected)
    assert ratio([0.0, 0.0], [0.0, 0.0]).value == 0


def test_ranks_without_each() -> None:
    generator = np.random.default_rng(0)
    # With ties, as targets of STS-B have them.
    first = generator.integers(0, 8, 40).astype(float)
    second = first + generator.integers(0, 6, 40)
    one = spearman(first.tolist(), second.tolist())

    def expected(rows: list[int]) -> float:
        pair = (torch.tensor(first[rows]), torch.tensor(second[rows]))
        return float(spearman_corrcoef(*pair))

    assert one.value == pytest.approx(expected(list(range(40))), abs=1e-6)
    for i in range(40):
        rest = [k for k in range(40) if k != i]
        assert one.without_each[i] == pytest.approx(expected(rest), abs=1e-6)
    assert spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]).value == 0


def test_scores_are_those_of_the_program() -> None:
    tags = ["O", "B-person", "I-person", "B-group"]
    predicted = [[0, 1, 2, 0], [3, 0], [2, 2, 1]]
    # The last word of the first sentence was cut off.
    labels = [[0, 1, 2, 0, 3], [1, 0], [1, 2, 1]]
    metric = EntityF1(tags)
    for one, two in zip(predicted, labels, strict=True):
        padded = [*one, *[0] * (len(two) - len(one))]
        metric.update(torch.tensor([padded]), torch.tensor([two]))
    score = scored("entity_f1", predicted, labels, class_names=tags)
    assert score.value == pytest.approx(float(metric.compute()))
    assert scored("accuracy", [1, 0, 1, 1], [1, 1, 1, 0]).value == 0.5
    # 2 right, 3 found, 3 there.
    assert scored("f1", [1, 0, 1, 1], [1, 1, 1, 0]).value == pytest.approx(2 * 2 / 6)
    assert scored("spearman", [0.1, 0.9], [1.0, 5.0]).value == pytest.approx(1)


def accuracies(seeds: int, *, samples: int, shift: float, draw: int) -> list[Score]:
    generator = np.random.default_rng(draw)
    hard = np.random.default_rng(7).random(samples)
    wide = 1 + 0.1 * generator.standard_normal((seeds, 1))
    right = generator.random((seeds, samples)) < np.clip((0.9 - 0.5 * hard + shift) * wide, 0, 1)
    return [ratio(row.astype(float).tolist(), [1.0] * samples) for row in right]


def test_a_difference_by_its_definition() -> None:
    first = accuracies(3, samples=60, shift=0.1, draw=1)
    second = accuracies(3, samples=60, shift=0.0, draw=2)
    found = compared(first, second)
    each = [100 * (a.value - b.value) for a, b in zip(first, second, strict=True)]
    assert found.seeds == 3
    assert found.mean == pytest.approx(mean(each))
    # For accuracies the jackknife is the variance of a mean.
    pairs = list(zip(first, second, strict=True))
    right = [
        [60 * a.value - 59 * a.without_each, 60 * b.value - 59 * b.without_each] for a, b in pairs
    ]
    of_sample = [mean(100 * float(a[i] - b[i]) for a, b in right) for i in range(60)]
    parts = (stdev(each) ** 2 / 3, stdev(of_sample) ** 2 / 60)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 59)
    reach = sum(parts) ** 0.5 * t.isf(0.025, freedom)
    assert found.low == pytest.approx(found.mean - reach)
    assert found.high == pytest.approx(found.mean + reach)
    assert found.p == pytest.approx(2 * t.sf(abs(found.mean) / sum(parts) ** 0.5, freedom))
    assert found.flips == sign_flips(each)


def test_what_is_the_same_is_not_significant() -> None:
    first = accuracies(3, samples=40, shift=0.0, draw=3)
    same = compared(first, first)
    assert (same.mean, same.p, same.significant) == (0, 1, False)
    single = compared(first[:1], accuracies(1, samples=40, shift=-0.5, draw=4))
    assert single.mean > 0
    assert single.p is None
    assert not single.significant


@pytest.mark.long
def test_chance_is_seldom_called_significant_and_a_great_difference_always() -> None:
    rounds = 100
    by_chance = sum(
        compared(
            accuracies(3, draw=2 * i + 10, samples=200, shift=0.0),
            accuracies(3, draw=2 * i + 11, samples=200, shift=0.0),
        ).significant
        for i in range(rounds)
    )
    assert by_chance <= 8
    for i in range(10):
        first = accuracies(3, draw=1000 + i, samples=200, shift=0.0)
        worse = accuracies(3, draw=2000 + i, samples=200, shift=-0.4)
        assert compared(first, worse).significant
