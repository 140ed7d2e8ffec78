"""A surrogate that ranks words and candidates: fewer queries, and no success less."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import pytest

import attacks
from attacks.composition import Attack, Transformation
from attacks.engine import Engine, Limits
from attacks.goals import Floats
from attacks.outcome import AttackRecord
from attacks.recipe_settings import Ranking, RecipeSettings
from attacks.recipes import find_recipe, recipe_names
from attacks.search import Beam, Greedy
from attacks.strategies import StagedGreedy
from attacks.victims.kinds import VictimError
from tests.unit.attacks.toys import WEIGHTS, BagVictim, Letters, Once, Synonyms, samples, value
from text import Text

CHOICES = {"good": "fine okay solid bad", "fine": "okay good dull", "plot": "story dull bad awful"}
TABLE = {word: tuple(listed.split()) for word, listed in CHOICES.items()}


@dataclass
class Weighted(BagVictim):
    """A bag of words with weights of its own, which counts what it is asked."""

    weights: Mapping[str, float] | None = None
    classes: int = 2

    def logits(self, texts: Sequence[Text]) -> Floats:
        rows = super().logits(texts)
        if self.weights is not None:
            values = [sum(self.weights.get(w, 0.0) for w in str(t).split()) for t in texts]
            rows = np.array([[-v / 2, v / 2] for v in values])
        return np.pad(rows, ((0, 0), (0, self.classes - 2)), constant_values=-9.0)


class Alike:
    """A surrogate that knows nothing."""

    name = "alike"

    def logits(self, texts: Sequence[Text]) -> Floats:
        return np.zeros((len(texts), 2))


REVERSED = Weighted(name="reversed", weights={word: -w for word, w in WEIGHTS.items()})


def drawn_texts(count: int) -> list[str]:
    random = Random(5)
    words = [*WEIGHTS, "film", "plot", "the"]
    return [" ".join(random.choices(words, k=random.randint(1, 7))) for _ in range(count)]


def attack(search: Any = None, surrogate: Any = None, **settings: Any) -> Attack:
    parts: dict[str, Any] = {"transformation": Synonyms(TABLE), "pre_constraints": [Once()]}
    return Attack(
        name="toy", search=search or Greedy(), surrogate=surrogate, **{**parts, **settings}
    )


def records(made: Attack, texts: Sequence[str], **limits: Any) -> list[AttackRecord]:
    engine = Engine(made, BagVictim(bias=-0.1), limits=Limits(**limits))
    return sorted(engine.run(samples(*texts)), key=lambda record: record.sample_id)


def timeless(found: Sequence[AttackRecord]) -> list[AttackRecord]:
    return [replace(record, seconds=0.0) for record in found]


@pytest.mark.parametrize("surrogate", [BagVictim(name="same"), REVERSED, Alike()])
@pytest.mark.parametrize("transformation", [Synonyms(TABLE), Letters()])
@pytest.mark.parametrize("ranking", ["delete", "unk", "weighted-saliency", "gradient", "random"])
def test_no_success_is_lost(
    surrogate: Any, transformation: Transformation, ranking: Ranking
) -> None:
    texts = drawn_texts(60)
    own = records(attack(Greedy(ranking=ranking), transformation=transformation), texts)
    made = attack(Greedy(ranking=ranking, shortlist=1), surrogate, transformation=transformation)
    helped = records(made, texts)
    lost = [b for a, b in zip(own, helped, strict=True) if a.outcome == "succeeded" != b.outcome]
    assert not lost
    assert any(record.outcome == "succeeded" for record in own)
    for alone, record in zip(own, helped, strict=True):
        if record.outcome == "failed":
            assert alone.outcome == "failed"
            assert cast(float, record.adversarial_score) >= cast(float, alone.adversarial_score)


@pytest.mark.parametrize("search", [Greedy(), StagedGreedy(stages=1)])
def test_the_victim_as_its_own_surrogate_saves_the_ranking(search: Greedy) -> None:
    texts = [text for text in drawn_texts(40) if value(text) > 0.1]
    for text in texts:
        (own,) = records(attack(search), [text])
        (helped,) = records(attack(replace(search, shortlist=99), BagVictim()), [text])
        if own.outcome == "succeeded":
            assert helped.adversarial == own.adversarial
            assert helped.queries == own.queries - len(text.split())


@pytest.mark.parametrize("surrogate", [BagVictim(name="same"), REVERSED])
def test_queries_are_those_of_the_victim(surrogate: BagVictim) -> None:
    for text in drawn_texts(40):
        victim = BagVictim(bias=-0.1)
        made = attack(Greedy(shortlist=2), replace(surrogate, asked=[]))
        (record,) = Engine(made, victim).run(samples(text))
        # A success is asked about once more, which is not counted.
        again = record.outcome == "succeeded"
        assert sum(map(len, victim.asked)) == record.unique_queries + again


def test_the_shortlist_has_the_best_candidates_of_the_surrogate() -> None:
    surrogate = Weighted(weights={"good": 5.0, "solid": 1.0, "bad": 2.0, "fine": 3.0, "okay": 4.0})
    victim = BagVictim(bias=9.0)
    (record,) = Engine(attack(Greedy(shortlist=2), surrogate), victim).run(samples("good film"))
    asked = [text for batch in victim.asked for text in batch]
    # The lowest logits of the gold class are those of "solid" and "bad". Then the attack without
    # surrogate begins: a ranking, and all candidates.
    assert asked[:3] == ["good film", "bad film", "solid film"]
    assert set(asked[3:]) == {"film", "good", "fine film", "okay film"}
    assert record.outcome == "failed"
    assert record.adversarial == "bad film"


def test_a_surrogate_that_knows_less_leads_to_other_words() -> None:
    text = "good film plot"
    (own,) = records(attack(), [text])
    (helped,) = records(attack(Greedy(shortlist=4), REVERSED), [text])
    assert own.adversarial == "bad film plot"
    assert own.salience is not None
    # Only the victim says what a word is worth.
    assert helped.adversarial != own.adversarial
    assert helped.salience is None


@pytest.mark.parametrize("in_flight", [1, 7])
@pytest.mark.parametrize("budget", [None, 1, 4, 9])
def test_the_same_in_any_company(in_flight: int, budget: int | None) -> None:
    texts = drawn_texts(30)
    made = attack(Greedy(shortlist=1), REVERSED, transformation=Letters())
    together = records(made, texts, query_budget=budget)
    assert timeless(records(made, texts, query_budget=budget, in_flight=in_flight)) == timeless(
        together
    )
    assert budget is None or max(record.queries for record in together) <= budget


def test_a_file_resumes_and_belongs_to_one_surrogate(tmp_path: Path) -> None:
    texts = [(text, 1) for text in drawn_texts(12)]
    path = tmp_path / "records.jsonl"
    made = attack(Greedy(shortlist=1), REVERSED)
    whole = attacks.attack(BagVictim(), texts, recipe=made, progress=False).records
    attacks.attack(BagVictim(), texts[:5], recipe=made, path=path, progress=False)
    rest = attacks.attack(BagVictim(), texts, recipe=made, path=path, progress=False).records
    assert timeless(rest) == timeless(whole)
    other = attack(Greedy(shortlist=1), replace(REVERSED, weights={"good": 1.0}))
    with pytest.raises(ValueError, match=r"about other settings \(attack.surrogate"):
        attacks.attack(BagVictim(), texts, recipe=other, path=path, progress=False)


def test_a_recipe_takes_a_model() -> None:
    texts = [(text, 1) for text in drawn_texts(12)]
    settings: dict[str, Any] = {"recipe": "deepwordbug", "progress": False}
    own = attacks.attack(BagVictim(), texts, **settings)
    helped = attacks.attack(BagVictim(), texts, surrogate=BagVictim(), shortlist=4, **settings)
    assert helped.summary.success_rate == own.summary.success_rate
    assert sum(r.queries for r in helped.records) < sum(r.queries for r in own.records)


def test_wrong_surrogates() -> None:
    with pytest.raises(ValueError, match="surrogate alike for toy, whose search is Beam, expected"):
        attack(Beam(), Alike())
    with pytest.raises(ValueError, match="got surrogate scores for toy, expected a loaded model"):
        Engine(attack(surrogate="scores"), BagVictim())
    three = Weighted(name="three", classes=3)
    with pytest.raises(VictimError, match="surrogate three with 3 classes, expected those of"):
        records(attack(surrogate=three), ["good film"])
    with pytest.raises(ValueError, match="got shortlist 3 without a surrogate, expected one"):
        RecipeSettings(shortlist=3)
    with pytest.raises(ValueError, match="got shortlist=0, expected"):
        Greedy(shortlist=0)
    with pytest.raises(ValueError, match="got compat textattack and ranking for deepwordbug"):
        attacks.attack(
            Alike(), [("good", 0)], recipe="deepwordbug", ranking="unk", compat="textattack"
        )


def test_recipes_that_rank_words_have_the_settings() -> None:
    ranked = {name for name in recipe_names() if "surrogate" in find_recipe(name).settings}
    assert {"pwws", "textfooler", "deepwordbug", "a2t", "bae-r-then-i"} <= ranked
    assert not {"clare", "random", "pso", "input-reduction", "hotflip"} & ranked
