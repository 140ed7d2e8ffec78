"""Searches against victims of which everything is known."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from attacks.composition import Attack, Search
from attacks.document import Document
from attacks.engine import Engine, Limits
from attacks.goals import Floats
from attacks.outcome import AttackRecord
from attacks.search import Beam, Greedy, KnownOrder, RandomSearch, descending
from tests.unit.attacks.toys import SYNONYMS, BagVictim, Once, Synonyms, samples, value
from text import Text

TEXT = "a good film, good plot"


def attack(search: Search, **settings: Any) -> Attack:
    parts: dict[str, Any] = {"transformation": Synonyms(), "pre_constraints": [Once()], **settings}
    return Attack(name="toy", search=search, **parts)


def run(search: Search, text: str = TEXT, bias: float = -0.5, **settings: Any) -> AttackRecord:
    (record,) = Engine(attack(search, **settings), BagVictim(bias=bias)).run(samples(text))
    return record


@pytest.mark.parametrize("ranking", ["delete", "unk", "weighted-saliency", "gradient", "random"])
def test_greedy_reaches_what_can_be_reached(ranking: Any) -> None:
    record = run(Greedy(ranking=ranking))
    assert record.outcome == "succeeded"
    assert isinstance(record.adversarial, str)
    assert value(record.adversarial) - 0.5 < 0
    assert record.adversarial_prediction == 0


def test_greedy_takes_the_most_important_words_first() -> None:
    # Deleting either "good" costs 2, deleting "plot" nothing: the first "good" goes first.
    record = run(Greedy(), bias=-1.9)
    assert record.adversarial == "a solid film, good bad" or record.words_changed <= 2
    # clean, 5 deletions, 3 for the first "good": 2 - 1.9 is still positive; 3 for the second.
    assert record.queries == 12
    assert record.adversarial == "a solid film, solid plot"
    assert record.words_changed == 2


def test_greedy_leaves_words_that_do_not_help() -> None:
    record = run(Greedy(), "film film", bias=1.0)
    assert record.outcome == "failed"
    assert record.adversarial == "film film"
    assert record.adversarial_score == record.score


def test_a_known_order_needs_no_ranking() -> None:
    fresh = KnownOrder()
    record = run(fresh)
    assert record.queries == run(Greedy()).queries
    known = KnownOrder(orders=fresh.new_orders)
    again = run(known)
    assert (again.adversarial, again.outcome) == (record.adversarial, record.outcome)
    assert again.queries == record.queries - 5  # words of the text
    assert known.new_orders == {}
    # It is the order that counts: the last word first.
    assert run(KnownOrder(orders={(TEXT,): [4, 0, 1, 2, 3]}), bias=-3.5).adversarial != (
        run(Greedy(), bias=-3.5).adversarial
    )


def test_saliency_weighs_by_the_best_replacement() -> None:
    # "plot" itself matters to nothing, but can become "bad": PWWS begins with the words that win.
    record = run(Greedy(ranking="weighted-saliency"), "good good plot", bias=-3.0)
    assert record.outcome == "succeeded"
    assert record.words_changed == 1


def test_a_success_of_the_ranking_is_not_lost_with_the_budget() -> None:
    for budget in range(1, 16):
        victim = BagVictim()
        composed = attack(Greedy(ranking="weighted-saliency"))
        engine = Engine(composed, victim, limits=Limits(query_budget=budget))
        (record,) = engine.run(samples("fine okay film plot"))
        asked = [text for texts in victim.asked for text in texts]
        adversarial = {t for t in asked if "[UNK]" not in t and value(t) - 0.5 <= 0}
        assert (record.outcome == "succeeded") == bool(adversarial)
        assert not adversarial or record.adversarial in adversarial
        assert record.queries <= budget


class OneHole(BagVictim):
    """Fails on one text alone; the word that is ranked first leads away from it."""

    def logits(self, texts: Sequence[Text]) -> Floats:
        scores = np.array([-1.0 if t == "good picture" else value(t) + 0.5 for t in texts])
        return np.stack([-scores / 2, scores / 2], axis=1)


def test_a_success_of_the_ranking_is_not_lost_on_the_way() -> None:
    # The word "good" goes first: "okay film". No text with it leads to "good picture".
    ranked = attack(Greedy(ranking="weighted-saliency"))
    (record,) = Engine(ranked, OneHole()).run(samples("good film"))
    assert (record.outcome, record.adversarial) == ("succeeded", "good picture")


def test_beam_of_full_width_is_exhaustive() -> None:
    words = [[w, *SYNONYMS.get(w, ())] for w in "a good film good plot".split()]
    lowest = min(value(" ".join(choice)) for choice in product(*words))
    record = run(Beam(width=10_000), "a good film good plot", bias=10.0)
    assert record.outcome == "failed"
    assert isinstance(record.adversarial, str)
    assert value(record.adversarial) == lowest


def test_beam_is_no_worse_than_greedy() -> None:
    narrow, wide = (run(Beam(width=width), bias=-1.0) for width in (1, 4))
    assert narrow.outcome == wide.outcome == "succeeded"
    assert wide.words_changed <= narrow.words_changed
    assert run(Beam(width=2, depth=1), bias=10.0).words_changed == 1


def test_random_search_draws_from_the_sample_alone() -> None:
    engine = Engine(attack(RandomSearch(tries=3)), BagVictim(bias=2.0), limits=Limits(in_flight=1))
    first = [record.adversarial for record in engine.run(samples(TEXT, TEXT, TEXT))]
    again = Engine(attack(RandomSearch(tries=3)), BagVictim(bias=2.0))
    second = {record.sample_id: record.adversarial for record in again.run(samples(*[TEXT] * 3))}
    assert first == [second[i] for i in range(3)]


class Rated(Synonyms):
    """Says how similar candidates are: the later in the alphabet, the more."""

    def propose(self, jobs: Sequence[Any]) -> list[list[Any]]:
        proposed = super().propose(jobs)
        for one in (one for candidates in proposed for one in candidates):
            one.similarity = float(ord(one.word[0])) if one.word else None
        return proposed


def test_of_those_that_succeed_the_most_similar_is_taken() -> None:
    record = run(Greedy(), "plot good", bias=-0.5, transformation=Rated(), pre_constraints=())
    # Ranking puts "good" first: "solid" (0), "okay" (0.25) both flip at bias -0.5.
    assert record.adversarial == "plot solid"
    assert record.similarity == float(ord("s"))


def test_the_budget_is_kept() -> None:
    for budget in range(1, 14):
        for search in (Greedy(), Greedy(ranking="weighted-saliency"), Beam(), RandomSearch()):
            victim = BagVictim(bias=5.0)
            engine = Engine(attack(search), victim, limits=Limits(query_budget=budget))
            (record,) = engine.run(samples(TEXT))
            assert record.queries <= budget
            assert record.unique_queries == sum(map(len, victim.asked)) <= record.queries
            assert record.exhausted == (record.queries == budget)


def test_ties_do_not_depend_on_noise() -> None:
    values = np.array([1.0, 3.0, 1.00001, 2.0, 2.99999])
    assert descending(values, 1e-4) == [1, 4, 3, 0, 2]
    assert descending(np.array([0.5, 0.7]), None) == [1, 0]


def test_the_reference_keeps_numbers_of_words_that_have_moved() -> None:
    table = {"good": ("go od",), "fine": ("bad",), "film": ("awful",)}

    def words(compat: Any) -> list[str]:
        record = run(
            Greedy(), "good fine film", bias=9.0, transformation=Synonyms(table), compat=compat
        )
        assert isinstance(record.adversarial, str)
        return Document.of(record.adversarial).words

    assert words("none") == ["go", "od", "bad", "awful"]
    # Word 1 is now "od", which has no synonyms; word 2 is "fine".
    assert words("textattack") == ["go", "od", "bad", "film"]
