import math
from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from measure.uncertainty import (
    FEWEST_SEEDS,
    Comparison,
    Side,
    bounds_of,
    compare,
    holm,
    join,
    joint_p,
    kind_of,
    over_seeds,
    score,
)


def side(outcomes: object) -> Side:
    """A row whose figures are the means of its outcomes `[S, N]`."""
    array = np.atleast_2d(np.asarray(outcomes, float))
    return Side(values=array.mean(axis=1).tolist(), outcomes=array.tolist())


def test_three_seeds() -> None:
    found = over_seeds([1.0, 2.0, 3.0])
    assert (found.mean, found.sd) == (2.0, 1.0)
    # t of 0.975 with two degrees of freedom.
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3))
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3))


def test_seeds_without_spread() -> None:
    assert over_seeds([0.5]).mean == 0.5
    assert over_seeds([0.5]).sd is None
    assert over_seeds([0.5]).low is None
    same = over_seeds([0.1 + 0.2, 0.3])
    assert (same.sd, same.low, same.high) == (0.0, same.mean, same.mean)
    for broken in (None, math.nan, math.inf):
        assert over_seeds([0.5, broken]).mean is None
    with pytest.raises(ValueError, match="at least one seed"):
        over_seeds([])


def test_outcomes_of_ten_digits_have_the_ties_of_exact_ones() -> None:
    """A mean of three attacks has thirds, of which `study.json` keeps ten digits."""
    first, second = [1, 1, 1, 1, 1, 1, 1, 3, 2, 3], [0, 1, 3, 1, 2, 3, 2, 3, 0, 2]
    parts = [a - b for a, b in zip(first, second, strict=True)]
    signs = product((-1, 1), repeat=len(parts))
    sums = [sum(s * part for s, part in zip(row, parts, strict=True)) for row in signs]
    exact = sum(abs(total) >= abs(sum(parts)) for total in sums) / len(sums)
    rounded = [[round(count / 3, 10) for count in row] for row in (first, second)]
    assert compare(side(rounded[0]), side(rounded[1])).p_texts == pytest.approx(exact)


def test_one_seed_is_mcnemar() -> None:
    # Only texts that one of both has right count: 8 to 1, so that p = 2 (1 + 9) / 2 ** 9.
    found = compare(side([1] * 8 + [0] + [1] * 5), side([0] * 8 + [1] + [1] * 5))
    assert found.texts_test == "McNemar"
    assert found.p_texts == pytest.approx(2 * (1 + 9) / 2**9)
    assert found.p_seeds is None
    # Texts say nothing of another seed.
    assert found.p is None
    assert found.effect == pytest.approx(7 / 14)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < found.effect < found.high < 1


def test_all_permutations_by_hand() -> None:
    first, second = np.array([[3.0, 1.0, 2.5], [1.0, 2.0, 2.0]]), np.zeros((2, 3))
    first[:, 1] = -first[:, 1]
    found = compare(side(first), side(second))
    differences = first.mean(axis=0)
    sums = [abs(np.dot(signs, differences)) for signs in product((-1, 1), repeat=3)]
    expected = np.mean([one >= abs(differences.sum()) - 1e-9 for one in sums])
    assert found.texts_test == "permutation"
    assert found.p_texts == pytest.approx(expected)


def test_seeds_are_paired() -> None:
    first, second = Side(values=[0.9, 0.5, 0.7]), Side(values=[0.8, 0.41, 0.59])
    found = compare(first, second)
    test = stats.ttest_rel(first.values, second.values)
    assert found.p_seeds == pytest.approx(test.pvalue)
    assert found.p == found.p_seeds
    assert (found.p_texts, found.texts_test) == (None, None)
    assert found.low == pytest.approx(test.confidence_interval().low)
    assert found.high == pytest.approx(test.confidence_interval().high)
    assert found.effect == pytest.approx(0.1)


def test_no_p_is_below_that_of_one_test() -> None:
    # Texts speak clearly, seeds do not.
    first = np.zeros((3, 40))
    first[0], first[1, :10], first[2, :20] = 1, 1, 1
    found = compare(side(first), side(np.zeros((3, 40))))
    assert found.p_texts is not None
    assert found.p_seeds is not None
    assert found.p is not None
    assert found.p_texts < 0.001 < found.p_seeds <= found.p
    # Both of equal size: together they are worth half of either.
    both = joint_p(0.04, 0.04, seeds=8, texts=300)
    assert both is not None
    assert both > 0.12
    assert joint_p(1e-4, 1e-6, seeds=3, texts=300) == pytest.approx(2e-4, rel=2)
    assert joint_p(1.0, 0.01, seeds=3, texts=300) == 1.0
    assert joint_p(0.0, 0.0, seeds=3, texts=300) == pytest.approx(0.0, abs=1e-9)
    assert joint_p(None, 0.01, seeds=3, texts=None) == 0.01
    assert joint_p(0.01, None, seeds=3, texts=300) == 0.01


def test_two_seeds_are_not_tested() -> None:
    assert joint_p(1e-6, 1e-6, seeds=FEWEST_SEEDS - 1, texts=300) is None
    found = compare(side([[1] * 40] * 2), side([[0] * 40, [0] * 39 + [1]]))
    assert found.p is None
    assert found.p_texts is not None


def test_shares_stay_shares() -> None:
    # One of two seeds has collapsed.
    values = [0.49, 0.047]
    wide = over_seeds(values)
    assert wide.low is not None
    assert wide.low < 0
    clipped = over_seeds(values, bounds_of("test/pgd_accuracy"))
    assert (clipped.low, clipped.high) == (0.0, 1.0)
    percent = over_seeds([100 * one for one in values], bounds_of("test/pgd_accuracy", 100))
    assert (percent.low, percent.high) == (0.0, 100.0)
    difference = compare(
        Side(values=values), Side(values=[0.1, 0.9]), bounds=bounds_of("attack/pwws/accuracy")
    )
    assert (difference.low, difference.high) == (-1.0, 1.0)
    assert bounds_of("certify/accuracy@0.5", -100) == (-100, 0)
    assert bounds_of("test/spearman") == (-1, 1)
    assert bounds_of("certify/radius_correct") == (0, math.inf)
    assert bounds_of("certify_propagation/mean_radius") == (0, math.inf)
    assert bounds_of("test/loss") == (-math.inf, math.inf)


@pytest.mark.parametrize("seeds", [1, 2, 3])
@pytest.mark.parametrize("kind", ["mean", "spearman", "pearson", "f1"])
def test_equal_rows(seeds: int, kind: str) -> None:
    outcomes = np.tile([0.0, 1.0, 1.0, 0.0, 1.0, 0.0], (seeds, 1))
    same = side(outcomes)
    found = compare(same, same, kind=kind_of(kind), labels=[0, 1, 0, 0, 1, 1])
    assert (found.effect, found.low, found.high) == (0.0, 0.0, 0.0)
    assert found.p_texts == 1.0
    assert found.p_seeds == (None if seeds == 1 else 1.0)


def test_differences_without_spread() -> None:
    found = compare(Side(values=[0.5, 0.6]), Side(values=[0.4, 0.5]))
    assert (found.p, found.low, found.high) == (None, None, None)
    # The texts decide where seeds have no spread.
    with_texts = compare(side([[1, 1, 0]] * 3), side([[0, 0, 0]] * 3))
    assert with_texts.p_seeds is None
    assert with_texts.p == with_texts.p_texts == 0.5
    assert (with_texts.low, with_texts.high) == (0.0, 1.0)
    alone = compare(Side(values=[0.5]), Side(values=[0.4]))
    assert (alone.p, alone.low, alone.high) == (None, None, None)
    single = compare(side([[1]]), side([[0]]))
    assert (single.p_texts, single.low) == (1.0, None)


def test_what_does_not_vary_has_no_correlation() -> None:
    gold = [1.0, 2.0, 3.0, 4.0, 5.0]
    flat, good = [[2.0] * 5], [[1.0, 2.0, 3.0, 4.0, 5.0]]
    assert score(flat[0], kind="spearman", labels=gold) == 0.0
    found = compare(
        Side(values=[1.0], outcomes=good),
        Side(values=[0.0], outcomes=flat),
        kind="spearman",
        labels=gold,
    )
    assert found.p_texts is not None
    assert 0 < found.p_texts <= 1


def test_figures_of_a_split() -> None:
    random = np.random.default_rng(0)
    drawn = random.normal(size=(2, 30))
    gold, answers = drawn[0].tolist(), drawn.sum(axis=0).tolist()
    expected = stats.spearmanr(answers, gold).statistic
    assert score(answers, kind="spearman", labels=gold) == pytest.approx(expected)
    expected = stats.pearsonr(answers, gold).statistic
    assert score(answers, kind="pearson", labels=gold) == pytest.approx(expected)
    # Two are right of three there and three found.
    assert score([1, 1, 1, 0, 0], kind="f1", labels=[1, 1, 0, 1, 0]) == pytest.approx(2 / 3)
    assert score([1, 0, 0, 0]) == 0.25
    assert [kind_of(f"test/{name}") for name in ("f1", "spearman", "accuracy")] == [
        *("f1", "spearman", "mean")
    ]


@pytest.mark.long
def test_correlations_do_not_depend_on_their_scale() -> None:
    random = np.random.default_rng(1)
    gold = random.normal(size=40)
    one, two = gold + 0.5 * random.normal(size=40), gold + 2 * random.normal(size=40)

    def p(scale: float) -> float | None:
        sides = [Side(values=[0.0], outcomes=[list(answers)]) for answers in (one, scale * two)]
        return compare(*sides, kind="pearson", labels=list(gold)).p_texts

    assert p(1.0) == p(64.0)
    found = p(1.0)
    assert found is not None
    assert found < 0.01


def test_holm() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, *[pytest.approx(0.06)] * 2]
    assert holm([None]) == [None]
    assert holm([]) == []


@pytest.mark.slow
@given(st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.02, 0.5]), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_holm_is_that_of_statsmodels_bit_for_bit(values: list[float]) -> None:
    assert holm(values) == multipletests(values, method="holm")[1].tolist()


def test_the_same_every_time() -> None:
    random = np.random.default_rng(2)
    first, second = (random.random((3, 60)) < 0.7 for _ in range(2))
    assert compare(side(first), side(second)) == compare(side(first), side(second))


def test_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="got 1 and 2 seeds"):
        compare(Side(values=[1]), Side(values=[1, 2]))
    with pytest.raises(ValueError, match="the same samples"):
        compare(side([1, 0]), side([1, 0, 1]))
    with pytest.raises(ValueError, match="without a gold value"):
        compare(side([1, 0]), side([1, 0]), kind="f1")


def null(
    draws: int, seeds: int, *, kind: str = "mean", texts: int = 80, seeds_differ: bool = False
) -> list[Comparison]:
    """Comparisons of two rows of the same kind: what they differ in is chance."""
    random = np.random.default_rng(seeds)
    found = []
    for _ in range(draws):
        ease = random.random(texts)
        if kind == "mean":
            skill = random.normal(0, 0.15 if seeds_differ else 0, size=(2, seeds, 1))
            both = (random.random((2, seeds, texts)) < ease + skill).astype(float)
            found.append(compare(side(both[0]), side(both[1])))
            continue
        both = ease + random.normal(size=(2, seeds, texts))
        sides = [
            Side(
                values=[score(one, kind=kind_of(kind), labels=ease.tolist()) for one in row],
                outcomes=row.tolist(),
            )
            for row in both
        ]
        found.append(compare(*sides, kind=kind_of(kind), labels=ease.tolist()))
    return found


def share(p_values: Iterable[float | None], level: float) -> float:
    """The share of those that are at most the level; where there is no test, nothing is found."""
    return float(np.mean([p is not None and p <= level for p in p_values]))


@pytest.mark.long
@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_size_of_the_tests(monkeypatch: pytest.MonkeyPatch, seeds: int) -> None:
    monkeypatch.setattr("measure.uncertainty.RESAMPLES", 499)
    draws = 300
    found = null(draws, seeds)
    for level in (0.05, 0.2, 0.5):
        # Three standard errors of a share of the draws; and a little for ties of seeds.
        limit = level + 3 * math.sqrt(level * (1 - level) / draws) + 0.01
        assert share((one.p_texts for one in found), level) <= limit
        assert share((one.p_seeds for one in found), level) <= limit
        assert share((one.p for one in found), level) <= limit
    # Not idle either.
    assert share((one.p_texts for one in found), 0.5) > 0.3


@pytest.mark.slow
def test_the_size_for_correlations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("measure.uncertainty.RESAMPLES", 199)
    p_values = [one.p_texts for one in null(150, 2, kind="spearman", texts=40)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.slow
def test_seeds_that_differ_are_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two rows whose seeds differ much: texts alone would find a difference far too often.
    monkeypatch.setattr("measure.uncertainty.RESAMPLES", 499)
    found = null(150, 3, seeds_differ=True)
    assert share((one.p_texts for one in found), 0.05) > 0.15
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)
    assert share((one.p for one in found), 0.05) <= limit


@pytest.mark.parametrize("seeds", [3, 5, 8])
@pytest.mark.parametrize(("of_seeds", "of_texts"), [(0, 0), (1, 1), (16, 0), (16, 16), (0, 16)])
def test_the_level_under_both_kinds_of_chance(seeds: int, of_seeds: int, of_texts: int) -> None:
    # Differences d = seed + text + rest without any effect; variances beside that of the rest.
    draws, texts = 20_000, 300
    random = np.random.default_rng(1)
    mean = random.chisquare(1, draws) * (1 + of_seeds + of_texts)
    spread = [
        (1 + part) * random.chisquare(freedom, draws) / freedom
        for part, freedom in ((of_seeds, seeds - 1), (of_texts, texts - 1))
    ]
    p_seeds = stats.f.sf(mean / spread[0], 1, seeds - 1)
    p_texts = stats.f.sf(mean / spread[1], 1, texts - 1)
    p_values = join(p_texts, p_seeds, seeds=seeds, texts=texts)
    for level in (0.01, 0.05):
        # Three standard errors of a share of the draws.
        limit = level + 3 * math.sqrt(level * (1 - level) / draws)
        assert np.mean(p_values <= level) <= limit
    if seeds == 8 and of_seeds == of_texts == 16:
        # The larger p of both tests alone finds far too much.
        larger = np.maximum(p_seeds, p_texts)
        assert np.mean(larger <= 0.05) > 0.08
