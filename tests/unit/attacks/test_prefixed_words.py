"""Universal triggers: the best words of a victim of which everything is known."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from attacks.prefixed_words import _search, universal_trigger
from tests.unit.attacks.toys import WEIGHTS, BagVictim
from text import Text

SAMPLES: list[tuple[Text, int]] = [
    (text, 1)
    for text in ["a good film", "good good plot", "fine good end", "good", "good film"] * 4
]


def test_the_words_of_least_weight() -> None:
    found = universal_trigger(BagVictim(), SAMPLES, length=2, candidates=list(WEIGHTS))
    assert found.words == ("awful", "awful")
    assert found.clean.value == 1.0
    assert found.attacked.value == 0.0
    assert found.attacked.count == 10
    assert "awful awful: accuracy 1.000 -> 0.000" in str(found)


def test_candidates_come_from_the_texts() -> None:
    samples = [*SAMPLES, ("bad bad bad", 0), ("dull bad", 0)]
    assert universal_trigger(BagVictim(), samples, length=1).words == ("bad",)
    towards = universal_trigger(BagVictim(), samples, length=1, target=1)
    assert towards.words == ("good",)
    pairs: list[tuple[Text, int]] = [(("film", str(text)), label) for text, label in SAMPLES]
    found = universal_trigger(BagVictim(), pairs, length=3, candidates=["bad", "film"])
    assert set(found.words) == {"bad"}


def test_both_halves_have_all_classes_where_these_alternate() -> None:
    # Every second row would be of one class: the words of one are no trigger for the other.
    turns: list[tuple[Text, int]] = [("fine film", 1), ("bad film", 0)] * 6
    found = universal_trigger(BagVictim(), turns, length=2, candidates=["awful", "film"])
    assert found.searched.value == found.attacked.value == 0.5
    assert (found.clean.value, found.attacked.count) == (1.0, 6)


def test_texts_that_have_the_target_do_not_count() -> None:
    good: list[tuple[Text, int]] = [("good film", 1)] * 6
    bad: list[tuple[Text, int]] = [("bad film", 0)] * 8
    wrong: list[tuple[Text, int]] = [("fine plot", 0)] * 4  # predicted as 1
    words = ["good", "fine", "bad"]
    towards = universal_trigger(
        BagVictim(), [*good, *bad, *wrong], length=2, candidates=words, target=1
    )
    assert towards.words == ("good", "good")
    assert (towards.clean.count, towards.attacked.count, towards.searched.count) == (4, 4, 4)
    assert (towards.clean.value, towards.attacked.value) == (1.0, 0.0)
    assert towards == replace(
        universal_trigger(BagVictim(), bad, length=2, candidates=words, target=1),
        queries=towards.queries,
    )
    # Without a target all count.
    anything = universal_trigger(BagVictim(), [*good, *bad], length=1, candidates=words)
    assert anything.clean.count == 7
    with pytest.raises(ValueError, match="got 0 sample that does not have class 1 already"):
        universal_trigger(BagVictim(), good, candidates=words, target=1)


def test_a_trigger_is_the_same_again_and_asks_each_question_once() -> None:
    victims = BagVictim(), BagVictim()
    first, second = (
        universal_trigger(victim, SAMPLES, length=2, candidates=["bad", "dull", "okay"])
        for victim in victims
    )
    assert first == second
    asked = [text for batch in victims[0].asked for text in batch]
    assert len(asked) == first.queries
    # Three queries of all words of a place; the others are the accuracies.
    assert len(victims[0].asked) == 3 + 3


def test_all_words_of_a_place_together_find_what_one_after_the_other_does() -> None:
    random = Random(4)
    for _ in range(30):
        values = {key: (random.randrange(3), random.random()) for key in product("abcd", repeat=3)}
        values |= {
            key: (random.randrange(3), 0.5) for n in (1, 2) for key in product("abcd", repeat=n)
        }
        trigger: list[str] = []
        for _ in range(3):
            trigger.append(max("abcd", key=lambda word: values[*trigger, word]))
        changed = True
        while changed:
            changed = False
            for position, word in product(range(3), "abcd"):
                tried = [*trigger[:position], word, *trigger[position + 1 :]]
                if values[tuple(tried)] > values[tuple(trigger)]:
                    trigger, changed = tried, True
        found = _search(3, "abcd", lambda some: [values[tuple(one)] for one in some])  # noqa: B023 # called at once
        assert found == trigger


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="length"):
        universal_trigger(BagVictim(), SAMPLES, length=0)
    with pytest.raises(ValueError, match="held out"):
        universal_trigger(BagVictim(), SAMPLES[:1])
    with pytest.raises(ValueError, match="no candidates"):
        universal_trigger(BagVictim(), SAMPLES, candidates=[])
