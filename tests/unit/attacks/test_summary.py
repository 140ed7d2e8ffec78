import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from attacks.goals import Score
from attacks.summary import summarise, table
from tests.unit.attacks.outcomes import flipped, record, skipped
from text.estimates import IntervalEstimate, mean, student, wilson


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [
        # Newcombe 1998, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_against_published_intervals(hits: int, count: int, low: float, high: float) -> None:
    one = wilson(hits, count)
    assert one.value == hits / count
    assert (one.low, one.high) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_its_share_and_mirrors(case: tuple[int, int]) -> None:
    hits, count = case
    one, other = wilson(hits, count), wilson(count - hits, count)
    assert 0 <= one.low <= one.value <= one.high <= 1
    assert one.low == pytest.approx(1 - other.high, abs=1e-12)


@pytest.mark.parametrize(("hits", "count"), [(0, 0), (-1, 3), (4, 3)])
def test_wilson_of_nothing(hits: int, count: int) -> None:
    with pytest.raises(ValueError, match="expected a share of at least one sample"):
        wilson(hits, count)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    # Tables; the first two in closed form: tan(0.475 pi), and 0.95 sqrt(2 / (1 - 0.95^2)).
    [
        (1, math.tan(0.475 * math.pi)),
        (2, 0.95 * math.sqrt(2 / (1 - 0.95**2))),
        (3, 3.182446305),
        (4, 2.776445105),
        (9, 2.262157163),
        (30, 2.042272456),
        (120, 1.979930405),
        (200, 1.971896224),
        (201, 1.971836507),
        (1000, 1.962339081),
        (10**9, 1.959963987),
    ],
)
def test_student(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=2e-9)


def test_student_equals_scipy() -> None:
    for freedom in (1, 2, 3, 4, 5, 8, 13, 100, 101, 498, 499, 500, 501, 999, 10**6):
        assert student(freedom) == pytest.approx(stdtrit(freedom, 0.975), rel=1e-12)


def test_mean_in_closed_form() -> None:
    # Mean 3, standard deviation sqrt(2.5), 4 degrees of freedom.
    one = mean([1, 2, 3, 4, 5])
    assert one is not None
    half = 2.776445105 * math.sqrt(2.5 / 5)
    assert (one.value, one.low, one.high) == pytest.approx((3, 3 - half, 3 + half))
    assert one.count == 5


def test_mean_without_spread() -> None:
    assert mean([0.25] * 7) == IntervalEstimate(0.25, 0.25, 0.25, 7)


def test_mean_stays_within_what_is_possible() -> None:
    assert mean([]) is None
    assert mean([0.9], top=1.0) == IntervalEstimate(0.9, 0.0, 1.0, 1)
    one = mean([0.0, 1.0, 1.0], top=1.0)
    assert one is not None
    assert (one.low, one.high) == (0.0, 1.0)


def test_figures() -> None:
    records = [
        record(0, queries=20, seconds=1.0),
        flipped(1, words=4, words_changed=1, similarity=0.9, exhausted=True),
        flipped(2, words=4, words_changed=3, similarity=0.7),
        skipped(3),
    ]
    found = summarise(records, score="margin")
    assert (found.samples, found.attacked) == (4, 3)
    assert found.clean_accuracy.value == 0.75
    assert found.accuracy.value == 0.25
    assert found.success_rate is not None
    assert found.success_rate.value == pytest.approx(2 / 3)
    # Of the skipped one, neither its query nor its seconds count.
    assert found.queries is not None
    assert found.queries.value == pytest.approx(40 / 3)
    assert found.seconds is not None
    assert found.seconds.value == pytest.approx(2 / 3)
    assert found.words_changed is not None
    assert found.words_changed.value == pytest.approx(0.5)
    assert (found.words_changed.low, found.words_changed.high) == (0.0, 1.0)
    assert found.similarity is not None
    assert found.similarity.value == pytest.approx(0.8)
    assert found.exhausted == pytest.approx(1 / 3)
    assert found.metrics() == {
        "samples": 4,
        "clean_accuracy": 0.75,
        "accuracy": 0.25,
        "success_rate": pytest.approx(2 / 3),
        "queries": pytest.approx(40 / 3),
        "unique_queries": 8,
        "words_changed": pytest.approx(0.5),
        "similarity": pytest.approx(0.8),
        "exhausted": pytest.approx(1 / 3),
        "saturated": 0,
        "unreliable": 0,
        "query_auc": pytest.approx(0.66),
    }


def test_a_change_of_marks_alone_changes_no_word() -> None:
    texts = [flipped(0, words=4, words_changed=0), flipped(1, words=4, words_changed=2)]
    found = summarise([*texts, flipped(2, words=0, words_changed=0)], score="margin").words_changed
    assert found is not None
    assert (found.value, found.count) == (0.25, 2)


def test_texts_without_a_candidate_are_named() -> None:
    none = [record(i, candidates=0) for i in range(2)]
    seen = [record(2, candidates=3), flipped(3, candidates=1), skipped(4)]
    found = summarise([*none, *seen], score="margin")
    assert found.untouched == 2
    assert (
        "toy: 2 of 4 attacked texts have no candidate: nothing was tried, and they count as robust"
    ) in table({"toy": found})
    # Records of older versions do not say.
    for others in (seen, [record(0), *seen]):
        assert "no candidate" not in table({"toy": summarise(others, score="margin")})
    many = [record(i, candidates=5) for i in range(200)]
    assert "no candidate" not in table({"toy": summarise([*many, none[0]], score="margin")})


def test_nothing_was_attacked() -> None:
    found = summarise([skipped(i) for i in range(3)], score="probability")
    assert found.clean_accuracy.value == found.accuracy.value == 0
    assert found.success_rate is found.queries is found.words_changed is None
    assert "success_rate" not in found.metrics()
    assert "-" in table({"a": found})


def test_no_records() -> None:
    with pytest.raises(ValueError, match="got no records"):
        summarise([], score="margin")


def test_a_targeted_attack_leaves_the_samples_of_its_class_alone() -> None:
    # Skipped, because the goal is reached without an attack; but rightly classified.
    found = summarise([skipped(0, prediction=1), flipped(1)], score="margin")
    assert found.clean_accuracy.value == 1
    assert found.accuracy.value == 0.5


@pytest.mark.parametrize("blind", [{"saturated": True}, {"score": 5e-7}])
def test_a_blind_score_is_no_robustness(blind: dict[str, float]) -> None:
    records = [record(i, **blind) for i in range(5)] + [flipped(i) for i in range(5, 10)]
    found = summarise(records, score="probability")
    assert found.unreliable
    assert (found.saturated, found.overstated) == (0.5, 0.5)
    assert "accuracy" not in found.metrics()
    assert "success_rate" not in found.metrics()
    assert found.metrics()["unreliable_accuracy"] == 0.5
    assert found.metrics()["unreliable"] == 1
    shown = table({"pwws": found})
    assert "0.500?" in shown
    assert "50.0 % of the attacked samples" in shown
    assert "no measure of robustness" in shown


def test_saturation_does_no_harm_to_the_margin() -> None:
    found = summarise([record(i, saturated=True) for i in range(5)], score="margin")
    assert not found.unreliable
    assert found.saturated == 1
    assert found.metrics()["accuracy"] == 1
    assert "?" not in table({"pwws": found})


@pytest.mark.parametrize("score", ["margin", "probability"])
@pytest.mark.parametrize(
    "blind",
    [
        {"salience": (0.0, None, -5e-4)},
        {"salience": (0.0, None, -5e-4), "score_change": 1.0},  # only the ranking was blind
        {"score_change": 5e-4},  # a search that ranks no words
        {"score_change": 5e-4, "label": ("a", "b"), "prediction": ("a", "b")},  # several classes
    ],
)
def test_a_flat_score_is_no_robustness(score: Score, blind: dict[str, Any]) -> None:
    flat = [record(i, score=-700.0, **blind) for i in range(5)]
    found = summarise([*flat, *(flipped(i) for i in range(5, 10))], score=score)
    assert found.unreliable
    assert (found.saturated, found.overstated) == (0, 0.5)
    assert found.metrics()["unreliable_accuracy"] == 0.5
    assert "no word moves their score" in table({"pwws": found})


@pytest.mark.parametrize(
    "visible",
    [
        {"salience": (0.0, 0.0, 2e-3)},  # one word moves the score
        {"salience": (None, None, None)},  # no word was tried
        {"salience": None},  # a search that ranks no words, or not these
        {"score_change": 2e-3},
        {"score_change": 0.0, "label": 0.5, "prediction": 0.5},
        {"salience": (0.0, 0.0, 0.0), "label": 0.5, "prediction": 0.5},  # a number
    ],
)
def test_a_score_that_moves_is_not_flat(visible: dict[str, Any]) -> None:
    found = summarise([record(i, score=-700.0, **visible) for i in range(5)], score="margin")
    assert not found.unreliable
    assert found.overstated == 0


def test_blind_attacks_that_succeeded_overstate_nothing() -> None:
    found = summarise([flipped(i, saturated=True) for i in range(5)], score="probability")
    assert found.saturated == 1
    assert found.overstated == 0
    assert not found.unreliable


def test_a_few_blind_ones_are_said_and_tolerated() -> None:
    records = [record(0, saturated=True), *(flipped(i) for i in range(1, 200))]
    found = summarise(records, score="probability")
    assert not found.unreliable
    assert found.metrics()["accuracy"] == 0.005
    assert "tolerable" in table({"pwws": found})


def test_as_json_without_infinity() -> None:
    line = summarise([record()], score="margin").line()
    assert line["queries"] == {"value": 10, "low": 0.0, "high": None, "count": 1}
    assert json.loads(json.dumps(line, allow_nan=False)) == line


def test_table_lines_up() -> None:
    found = summarise([record(0), flipped(1), flipped(2)], score="margin")
    head, rule, *rows = table({"textfooler": found, "a": found}).splitlines()
    assert set(rule) == {"-"}
    assert len(rows) == 4
    at = head.index("queries")
    assert {row[at] for row in rows} == {"1"}
    assert rows[0].split()[:3] == ["textfooler", "1.000", "0.333"]
    # The clean accuracy says how many samples both accuracies are about.
    assert "1.000 (3)  " in rows[1]
    assert rows[1].strip().startswith("0.439 - 1.000")


def test_the_area_under_the_curve_of_queries() -> None:
    queries = [1, 250, 999, 1000, 4000]
    records = [flipped(i, queries=count) for i, count in enumerate(queries)]
    records += [record(5, queries=3), record(6, queries=2000), skipped(7)]
    # The curve itself, query by query.
    curve = [sum(count <= asked for count in queries) / 7 for asked in range(1000)]
    area = summarise(records, score="margin").query_auc
    assert area is not None
    assert area.value == pytest.approx(sum(curve) / 1000)
    assert area.count == 7
    assert summarise([skipped()], score="margin").query_auc is None
