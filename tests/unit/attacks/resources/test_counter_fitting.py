"""Counter-fitting: its cost, its gradient, and what it does to vectors."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from attacks.resources.archive import BrokenFile
from attacks.resources.counter_fitting import (
    CounterFitting,
    Floats,
    Pairs,
    Term,
    cosines,
    cost,
    counter_fit,
    near_pairs,
    read_pairs,
    unit,
    without,
)


def random_vectors(n: int = 12, d: int = 5, seed: int = 0) -> Floats:
    return unit(np.random.default_rng(seed).normal(size=(n, d)))


def pairs_of(*pairs: tuple[int, int]) -> Pairs:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def some_terms(vectors: Floats) -> tuple[Term, ...]:
    near, distances = near_pairs(vectors, 0.9)
    return (
        Term(pairs_of((0, 1), (2, 3), (1, 4)), np.ones(3), -1, 0.3),
        Term(pairs_of((0, 5), (5, 6)), np.zeros(2), 1, 0.7),
        Term(near, distances - 0.05, 1, 0.2),
    )


def by_hand(vectors: Floats, terms: tuple[Term, ...]) -> float:
    """The terms of the paper, pair by pair, for vectors of any length."""
    total = 0.0
    for pairs, limits, sign, weight in terms:
        for (i, j), limit in zip(pairs, limits, strict=True):
            u, v = vectors[i], vectors[j]
            distance = 1 - u @ v / np.sqrt((u @ u) * (v @ v))
            total += weight * max(0.0, sign * (distance - limit))
    return total


def test_the_cost_is_the_sum_over_pairs() -> None:
    vectors = random_vectors()
    terms = some_terms(vectors)
    assert cost(vectors, terms)[0] == pytest.approx(by_hand(vectors, terms), rel=1e-12)


def test_the_gradient_is_the_numerical_one() -> None:
    vectors = random_vectors()
    terms = some_terms(vectors)
    _, gradient, counts = cost(vectors, terms)
    numerical = np.zeros_like(vectors)
    for place in np.ndindex(*vectors.shape):
        step = np.zeros_like(vectors)
        step[place] = 1e-6
        up, down = by_hand(vectors + step, terms), by_hand(vectors - step, terms)
        numerical[place] = (up - down) / 2e-6
    np.testing.assert_allclose(gradient, numerical, atol=1e-8)
    assert ((counts > 0) == (np.abs(numerical).max(axis=1) > 0)).all()


def test_neighbours_within_the_radius() -> None:
    vectors = random_vectors(700)
    pairs, distances = near_pairs(vectors, 0.1)
    apart = 1 - vectors @ vectors.T
    expected = {(i, j) for i, j in np.argwhere(apart <= 0.1).tolist() if i < j}
    assert {tuple(pair) for pair in pairs.tolist()} == expected
    assert len(pairs) == len(expected) > 100
    np.testing.assert_allclose(distances, apart[pairs[:, 0], pairs[:, 1]], atol=1e-12)


def test_synonyms_meet_antonyms_part_and_neighbours_stay() -> None:
    vectors = np.array([[1.0, 0, 0.05], [1, 0.05, 0], [0, 1, 0], [0.1, 1, 0], [0, 0, 3]])
    synonyms, antonyms = pairs_of((2, 4)), pairs_of((0, 1))
    found = counter_fit(vectors, synonyms, antonyms, CounterFitting(steps=200))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    assert cosines(found, synonyms) > 0.99
    assert cosines(unit(vectors), antonyms) > 0.99
    assert abs(cosines(found, antonyms)) < 0.2
    # Word 3 follows word 2, its neighbour, which moves to word 4.
    assert cosines(found, pairs_of((2, 3))) > cosines(unit(vectors), pairs_of((2, 3))) - 0.02
    assert cosines(found, pairs_of((3, 4))) > 0.9
    alone = counter_fit(vectors, synonyms, antonyms, CounterFitting(steps=200, space=0))
    np.testing.assert_array_equal(alone[3], unit(vectors)[3])


def test_a_pair_in_both_lists_is_one_of_antonyms() -> None:
    vectors, both = random_vectors(4), pairs_of((0, 1))
    other = pairs_of((2, 3))
    found = counter_fit(vectors, np.concatenate([both, other]), both)
    np.testing.assert_allclose(found, counter_fit(vectors, other, both))
    assert without(pairs_of((0, 1), (1, 2)), both).tolist() == [False, True]


def test_the_cost_falls() -> None:
    vectors, costs = random_vectors(50), list[float]()
    pairs = pairs_of(*((i, i + 1) for i in range(0, 40, 2)))
    counter_fit(vectors, pairs[:15], pairs[15:], after=lambda step, total: costs.append(total))
    assert len(costs) == 20
    assert all(later < earlier for earlier, later in pairwise(costs))


def test_pairs_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("b a\na b \n\nc c\na nowhere\nb c\n")
    found, unknown = read_pairs(path, {"a": 0, "b": 1, "c": 2})
    assert found.tolist() == [[0, 1], [1, 2]]
    assert unknown == 1
    path.write_text("a b\na b c\n")
    with pytest.raises(BrokenFile, match=r"line 2: got 'a b c', expected two words"):
        read_pairs(path, {"a": 0})
    path.write_text("\n")
    with pytest.raises(BrokenFile, match="got an empty file"):
        read_pairs(path, {"a": 0})


def test_settings_out_of_range() -> None:
    with pytest.raises(ValueError, match="got steps=0"):
        CounterFitting(steps=0)
    with pytest.raises(ValueError, match="got radius=3, expected a whole number of at least 0 and"):
        CounterFitting(radius=3)
    with pytest.raises(ValueError, match=r"got space=-1"):
        CounterFitting(space=-1)
