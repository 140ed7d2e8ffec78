"""Verdicts do not depend on how samples are put together, and nothing is asked twice."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.goals import Floats, Untargeted
from attacks.outcome import AttackRecord, Sample, from_line
from attacks.search import Beam, Greedy, RandomSearch
from attacks.summary import summarise, table
from attacks.victims.kinds import VictimError, check_logits
from tests.unit.attacks.toys import BagVictim, Forbid, Letters, Once, Synonyms, samples
from text import Text

TEXTS = [
    "a good film, good plot",
    "good",
    "bad plot",
    "a fine film with a good plot and a good end",
    "",
    "🙂 ?!",
    "fine fine fine good",
]


def attack(**settings: Any) -> Attack:
    parts: dict[str, Any] = {
        "transformation": Synonyms(),
        "search": Greedy(),
        "pre_constraints": [Once()],
        **settings,
    }
    return Attack(name="toy", **parts)


def verdicts(records: Sequence[AttackRecord]) -> dict[int, tuple[Any, ...]]:
    return {
        r.sample_id: (r.outcome, r.adversarial, r.queries, r.unique_queries, r.words_changed)
        for r in records
    }


@pytest.mark.parametrize("in_flight", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "settings",
    [{}, {"transformation": Letters(), "search": RandomSearch(tries=2)}],
    ids=["greedy", "random"],
)
def test_verdicts_do_not_depend_on_company_or_order(
    in_flight: int, settings: dict[str, Any]
) -> None:
    whole = samples(*TEXTS)
    alone = [next(Engine(attack(**settings), BagVictim()).run([one])) for one in whole]
    engine = Engine(attack(**settings), BagVictim(), limits=Limits(in_flight=in_flight))
    assert verdicts(list(engine.run(whole[::-1]))) == verdicts(alone)


def test_another_seed_is_another_attack() -> None:
    found = set()
    for seed in range(5):
        parts = attack(transformation=Letters(), search=RandomSearch(tries=1))
        (record,) = Engine(parts, BagVictim(), seed=seed).run(samples("a b c d e good"))
        assert record.seed == seed
        found.add(record.adversarial)
    assert len(found) > 1


def test_outcomes_and_counts() -> None:
    records = {r.sample_id: r for r in Engine(attack(), BagVictim()).run(samples(*TEXTS))}
    assert [records[i].outcome for i in range(7)] == [
        "succeeded",
        "succeeded",
        "skipped",
        "succeeded",
        "skipped",
        "skipped",
        "failed",
    ]
    skipped = records[2]
    assert (skipped.queries, skipped.words_changed, skipped.adversarial) == (1, 0, None)
    one = records[1]
    # clean, "" for the ranking, and three synonyms
    assert (one.queries, one.unique_queries, one.words, one.words_changed) == (5, 5, 1, 1)


@pytest.mark.parametrize("ranking", ["delete", "unk", "weighted-saliency"])
def test_records_have_what_each_word_is_worth(ranking: Any) -> None:
    victim = BagVictim()
    texts = samples("the good film, good plot", "bad plot")
    records = list(Engine(attack(search=Greedy(ranking=ranking)), victim).run(texts))
    by_id = {record.sample_id: record for record in records}
    first = by_id[texts[0].sample_id]
    scores = [
        Untargeted().judge(victim.logits([text]), np.array([first.label]))[0]
        for text in ("the good film, good plot", "the film, good plot", "good film, good plot")
    ]
    assert first.salience is not None
    assert len(first.salience) == first.words == 5
    assert first.salience[1] == pytest.approx(scores[1] - scores[0], rel=1e-3)
    assert first.salience[0] == pytest.approx(scores[2] - scores[0], abs=1e-6)
    assert from_line(json.loads(json.dumps(first.line()))) == first
    old = {n: v for n, v in first.line().items() if n not in ("salience", "score_change")}
    assert from_line(old) == replace(first, salience=None, score_change=None)
    (other,) = Engine(attack(search=Beam()), victim).run(texts[:1])
    assert other.salience is None


def test_each_text_is_sent_once() -> None:
    victim = BagVictim()
    records = list(Engine(attack(), victim).run(samples("good plot", "good plot", "plot good")))
    for batch in victim.asked:
        assert len(batch) == len(set(batch))
    # Each sample is billed as if it were alone.
    assert records[0].queries == records[1].queries
    assert sum(map(len, victim.asked)) < sum(record.unique_queries for record in records)


def test_samples_are_taken_as_there_is_room() -> None:
    taken: list[int] = []

    def source() -> Any:
        for one in samples(*["a good film, good plot"] * 20):
            taken.append(one.sample_id)
            yield one

    records = Engine(attack(), BagVictim(), limits=Limits(in_flight=4)).run(source())
    done = list(islice(records, 1))
    assert len(done) == 1
    assert len(taken) == 4
    assert len(list(records)) == 19


def test_cheap_constraints_spare_the_dear_ones() -> None:
    cheap, dear = Forbid(frozenset({"fine"}), cost=1.0), Forbid(frozenset({"okay"}), cost=9.0)
    parts = attack(constraints=[dear, cheap])
    (record,) = Engine(parts, BagVictim()).run(samples("good"))
    assert record.adversarial == "solid"
    assert set(cheap.seen) == {"fine", "okay", "solid"}
    assert set(dear.seen) == {"okay", "solid"}


def test_candidates_that_change_nothing_are_not_asked_about() -> None:
    table = {"good": ("good", "fine", "fine")}
    (record,) = Engine(attack(transformation=Synonyms(table)), BagVictim()).run(samples("good"))
    assert record.queries == 3
    reference = attack(transformation=Synonyms(table), compat="textattack")
    (record,) = Engine(reference, BagVictim()).run(samples("good"))
    assert record.queries == 4


def test_budget_per_word() -> None:
    limits = Limits(budget_per_word=2, query_budget=7)
    assert [limits.budget(words) for words in (0, 1, 3, 100)] == [1, 2, 6, 7]
    assert Limits().budget(5) == float("inf")
    assert [Limits(budget_per_word=share).budget(100) for share in (0.29, 2.3)] == [29, 230]
    engine = Engine(attack(), BagVictim(bias=9.0), limits=limits)
    (record,) = engine.run(samples("good good"))
    assert (record.queries, record.exhausted) == (4, True)


@pytest.mark.parametrize("settings", [{"in_flight": 0}, {"query_budget": 0}])
def test_limits_are_checked(settings: dict[str, int]) -> None:
    with pytest.raises(
        ValueError, match=r"=0(.0)?, expected a (whole|finite) number of (at least 1|more than 0)"
    ):
        Limits(**settings)


class Confident(BagVictim):
    """Multiplies its logits."""

    def logits(self, texts: Sequence[Text]) -> Floats:
        return super().logits(texts) * 100


def test_confidence_that_hides_the_way_is_noted() -> None:
    probability = Untargeted(score="probability")
    (hidden,) = Engine(attack(goal=probability), Confident(bias=1.0)).run(samples(TEXTS[0]))
    assert hidden.saturated
    (shown,) = Engine(attack(goal=probability), BagVictim(bias=1.0)).run(samples(TEXTS[0]))
    assert not shown.saturated


class Failing(BagVictim):
    """Breaks at the n-th question."""

    def logits(self, texts: Sequence[Text]) -> Floats:
        if len(self.asked) == 4:
            msg = "broken"
            raise VictimError(msg)
        return super().logits(texts)


def test_what_was_done_before_the_victim_broke_stands() -> None:
    records = Engine(attack(), Failing(), limits=Limits(in_flight=1)).run(samples(*["bad"] * 6))
    done = [next(records) for _ in range(4)]
    with pytest.raises(VictimError, match="broken"):
        next(records)
    assert [record.sample_id for record in done] == [0, 1, 2, 3]


def test_labels_that_are_no_classes() -> None:
    with pytest.raises(VictimError, match=r"labels \[2\] for a victim of 2 classes"):
        list(Engine(attack(), BagVictim()).run(samples("good", label=2)))


def test_white_box_needs_gradients() -> None:
    class Black:
        name = "black"

        def logits(self, texts: Sequence[Text]) -> Floats:
            return np.zeros((len(texts), 2))

    with pytest.raises(TypeError, match="black, which shows no gradients"):
        Engine(attack(white_box=True, search=Greedy(ranking="gradient")), Black())


def test_records_survive_a_file() -> None:
    pair = Sample(sample_id=3, text=("good film", "fine plot"), label=1)
    (record,) = Engine(attack(), BagVictim()).run([pair])
    assert from_line(json.loads(json.dumps(record.line()))) == record


class Sour(BagVictim):
    """Gives NaN for texts with a word, and remembers how often it was asked."""

    word = "solid"

    def logits(self, texts: Sequence[Text]) -> Floats:
        found = super().logits(texts)
        found[[self.word in str(text).split() for text in texts]] = np.nan
        return check_logits(found, texts, self.name)


@pytest.mark.parametrize("in_flight", [1, 2, 100])
def test_an_invalid_answer_costs_its_sample_alone(in_flight: int) -> None:
    texts = ["solid", "fine", "bad solid good", "good", "a fine film"]
    engine = Engine(attack(), Sour(), limits=Limits(in_flight=in_flight))
    records = {one.sample_id: one for one in engine.run(samples(*texts))}
    assert sorted(records) == [0, 1, 2, 3, 4]
    assert [records[i].outcome for i in (0, 2)] == ["error", "error"]
    assert records[0].prediction is None
    # "good" has the candidate "solid": its search ends in an error as well.
    assert records[3].outcome == "error"
    assert records[3].prediction == 1
    assert "got NaN" in (records[3].reason or "")
    assert [records[i].outcome for i in (1, 4)] == ["succeeded", "succeeded"]
    found = summarise(records.values(), score="margin")
    assert (found.samples, found.errors) == (2, 3)
    assert "3 of 5 samples are left out" in table({"toy": found})
    for one in records.values():
        assert from_line(json.loads(json.dumps(one.line()))) == one


def test_an_attack_without_any_valid_answer_is_an_error() -> None:
    with pytest.raises(VictimError, match=r"got NaN for 2 of 2 text"):
        list(Engine(attack(), Sour()).run(samples("solid", "solid good")))
    # Those that a former start has answered are answers, too.
    later = Engine(attack(), Sour())
    later.answered = True
    assert [one.outcome for one in later.run(samples("solid"))] == ["error"]


class Wavering(BagVictim):
    """Takes its answer back when it is asked about a text once more."""

    def again(self, texts: Sequence[Text]) -> Floats | None:
        return super().logits(["good good good"] * len(texts))


class Stubborn(BagVictim):
    """May not be asked again."""

    def again(self, texts: Sequence[Text]) -> Floats | None:
        return None


def test_successes_are_asked_about_once_more() -> None:
    texts = samples("good plot", "bad", "fine fine fine good")
    plain = list(Engine(attack(), BagVictim()).run(texts))
    assert {one.sample_id: one.holds for one in plain} == {0: True, 1: None, 2: None}
    for victim, holds in ((Wavering(), False), (Stubborn(), None)):
        records = list(Engine(attack(), victim).run(texts))
        assert [one.holds for one in records if one.outcome == "succeeded"] == [holds]
        # The last look is in no other figure.
        for one, other in zip(records, plain, strict=True):
            assert replace(one, holds=None, seconds=0) == replace(other, holds=None, seconds=0)
    unsure = summarise(Engine(attack(), Wavering()).run(texts), score="margin")
    assert unsure.metrics()["unstable"] == 1
    assert "1 of 1 successes did not succeed" in table({"toy": unsure})
    assert (
        "unstable"
        not in summarise(Engine(attack(), Stubborn()).run(texts), score="margin").metrics()
    )


@pytest.mark.parametrize("search", [Greedy(), RandomSearch(tries=5), Beam()])
def test_a_success_is_not_exhausted(search: Any) -> None:
    outcomes = set()
    for budget in range(1, 12):
        limits = Limits(query_budget=budget)
        (record,) = Engine(attack(search=search), BagVictim(), limits=limits).run(samples("good"))
        outcomes.add(record.outcome)
        assert record.exhausted == (record.outcome == "failed")
    assert outcomes == {"failed", "succeeded"}


@pytest.mark.parametrize("ranking", ["delete", "weighted-saliency", "random"])
def test_candidates_are_counted(ranking: Any) -> None:
    composed = attack(search=Greedy(ranking=ranking))
    # The first text has no synonym, the second one five.
    records = Engine(composed, BagVictim(bias=5.0)).run(samples("a the", "good fine"))
    none, some = sorted(records, key=lambda record: record.sample_id)
    assert (none.outcome, none.candidates) == ("failed", 0)
    assert some.candidates is not None
    assert some.candidates >= 5
    forbidden = replace(
        composed, constraints=[Forbid(frozenset({"fine", "okay", "solid", "good"}))]
    )
    (record,) = Engine(forbidden, BagVictim(bias=5.0)).run(samples("good fine"))
    assert (record.outcome, record.candidates) == ("failed", 0)
