"""The ensemble `worst`: the same records as those of its attacks, stopped at the first success."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from attacks.engine import Engine, Limits
from attacks.ensemble import Ensemble, engine_of
from attacks.goals import Unsure, Untargeted
from attacks.outcome import AttackRecord, Sample, from_line
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import CHEAPEST_FIRST, SIX, build, recipes_of
from attacks.resources.catalogue import Resources
from attacks.search import Greedy
from attacks.summary import summarise, wins
from attacks.victims.kinds import CallableVictim, InvalidAnswers
from measure.attack_mean import AttackAccuracy, mean_accuracy
from measure.attack_names import file_names
from measure.attack_settings import AttackSettings, plan
from tests.unit.attacks.test_families import TEXTS as FAMILY_TEXTS
from tests.unit.attacks.test_families import resources
from tests.unit.attacks.test_strategies import GradientVictim
from tests.unit.attacks.test_strategies import attack as toy_attack
from text import Text

__all__ = ["resources"]
NAMES = ["deepwordbug", "textfooler", "pwws"]
TEXTS: list[Text] = [*FAMILY_TEXTS, "a bad film, good okay", "good awful fine good fine"]
SAMPLES = [Sample(sample_id=i, text=text, label=1) for i, text in enumerate(TEXTS)]


def engines(
    resources: Resources, names: Sequence[str] = NAMES, *, in_flight: int = 64, **settings: Any
) -> list[Engine]:
    composed = [build(RecipeSettings(recipe=name), resources) for name in names]
    limits = Limits(in_flight=in_flight, **settings)
    # Some texts have no word that counts: no attack succeeds.
    return [Engine(attack, GradientVictim(bias=0.1), limits=limits) for attack in composed]


def by_id(records: Any) -> dict[int, AttackRecord]:
    return {record.sample_id: record for record in records}


@pytest.mark.parametrize("in_flight", [1, 3, 64])
@pytest.mark.parametrize("budget", [None, 12])
def test_each_text_falls_to_the_first_attack_that_breaks_it(
    resources: Resources, in_flight: int, budget: int | None
) -> None:
    limits: dict[str, Any] = {"in_flight": in_flight, "query_budget": budget}
    alone = [by_id(engine.run(SAMPLES)) for engine in engines(resources, **limits)]
    together = by_id(Ensemble(engines(resources, **limits)).run(SAMPLES))
    assert together.keys() == {sample.sample_id for sample in SAMPLES}
    for i, record in together.items():
        records = [one[i] for one in alone]
        fallen = [one.outcome == "succeeded" for one in records]
        last = len(records) if not any(fallen) else fallen.index(True) + 1
        if records[0].outcome == "skipped":
            last = 1
        assert record.queries == sum(one.queries for one in records[:last])
        assert record.unique_queries == sum(one.unique_queries for one in records[:last])
        if any(fallen):
            assert record.recipe == NAMES[last - 1]
            assert record.adversarial == records[last - 1].adversarial
            assert not record.exhausted
        elif records[0].outcome == "failed":
            best = max(one.adversarial_score or 0 for one in records)
            assert record.adversarial_score == best
    # The figure of the separate attacks.
    right = {
        name: {i: r.prediction == r.label and r.outcome != "succeeded" for i, r in one.items()}
        for name, one in zip(NAMES, alone, strict=True)
    }
    accuracies = {
        name: AttackAccuracy(accuracy=0.0, samples=len(TEXTS), clean=None, subject={}, correct=of)
        for name, of in right.items()
    }
    accuracy = summarise(together.values(), score="margin").accuracy.value
    assert accuracy == mean_accuracy(accuracies).worst
    assert 0 < accuracy <= min(sum(of.values()) for of in right.values()) / len(TEXTS)


def test_more_than_one_attack_wins(resources: Resources) -> None:
    records = list(Ensemble(engines(resources, ["pruthi", *NAMES])).run(SAMPLES))
    assert len({r.recipe for r in records if r.outcome == "succeeded"}) > 1
    assert wins("worst", records).startswith("worst: successes ")
    assert wins("pwws", list(engines(resources)[2].run(SAMPLES))) == ""
    assert from_line(records[0].line()) == records[0]


class Silent(GradientVictim):
    """Has no answer to texts with a word."""

    def logits(self, texts: Sequence[Text]) -> Any:
        bad = {text: "no number" for text in texts if "okay" in str(text)}
        if bad:
            msg = "got no number"
            raise InvalidAnswers(msg, bad)
        return super().logits(texts)


def test_an_invalid_answer_leaves_a_sample_out_unless_it_falls(resources: Resources) -> None:
    samples = [Sample(sample_id=0, text="a good film", label=1)]
    composed = [build(RecipeSettings(recipe=name), resources) for name in ("textfooler", "pwws")]
    (record,) = Ensemble([Engine(a, Silent(bias=-0.9)) for a in composed]).run(samples)
    first, second = (next(iter(Engine(a, Silent(bias=-0.9)).run(samples)), None) for a in composed)
    assert first is not None
    assert first.outcome == "error"
    assert second is not None
    assert record.outcome == ("succeeded" if second.outcome == "succeeded" else "error")
    assert record.queries == first.queries + second.queries


@pytest.mark.parametrize("in_flight", [1, 64])
def test_an_invalid_first_answer_stops_no_other_sample(
    resources: Resources, in_flight: int
) -> None:
    def answer(texts: list[Text]) -> Any:
        logits = GradientVictim(bias=-0.9).logits(texts)
        logits[[i for i, text in enumerate(texts) if "broken" in text]] = np.nan
        return logits

    def ensemble() -> Ensemble:
        composed = [build(RecipeSettings(recipe=n), resources) for n in ("pwws", "textfooler")]
        limits = Limits(in_flight=in_flight)
        return Ensemble([Engine(a, CallableVictim(answer), limits=limits) for a in composed])

    samples = [
        Sample(sample_id=i, text=text, label=1)
        for i, text in enumerate(("broken good film", "a good film"))
    ]
    records = by_id(ensemble().run(samples))
    assert (records[0].outcome, records[1].outcome) == ("error", "succeeded")
    with pytest.raises(InvalidAnswers, match="got NaN"):
        next(ensemble().run(samples[:1]))


def test_an_attack_that_may_keep_the_prediction_is_refused() -> None:
    # It would skip, as it stands, a text that the other attack breaks.
    goals = (Untargeted(score="probability"), Unsure(score="probability"))
    with pytest.raises(ValueError, match="got toy in worst, which keeps the prediction"):
        Ensemble([Engine(toy_attack(Greedy(), goal=goal), GradientVictim()) for goal in goals])


def test_names() -> None:
    assert recipes_of("worst") == [*CHEAPEST_FIRST]
    assert {*CHEAPEST_FIRST} == {*SIX}
    assert recipes_of("worst:pwws, a2t") == ["pwws", "a2t"]
    for wrong in ("worst:", "worst:pwws,pwws", "worst:pwws,", "worst:worst"):
        with pytest.raises(ValueError, match="expected different recipes"):
            recipes_of(wrong)
    assert file_names("pwws,worst:a2t,bae", "x") == ["pwws-x", "worst-x"]
    assert file_names("all,worst", None) == [*SIX, "worst"]


def test_the_plan_of_a_command() -> None:
    settings = AttackSettings(recipe="deepwordbug,worst:deepwordbug,pruthi,charmer", edits=2)
    single, worst = plan(settings)
    assert (single.name, single.attacks) == ("deepwordbug", (single.attack,))
    assert worst.name == "worst"
    assert [attack.name for attack in worst.attacks] == ["deepwordbug", "pruthi", "charmer"]
    assert worst.subject["recipes"] == ["deepwordbug", "pruthi", "charmer"]
    assert worst.subject["charmer.edits"] == 2
    assert worst.options == {"edits": 2}
    with pytest.raises(ValueError, match="expected it for one of charmer"):
        plan(AttackSettings(recipe="worst:deepwordbug,pruthi", edits=2))
    attack = build(RecipeSettings(recipe="input-reduction"))
    with pytest.raises(ValueError, match="got input-reduction in worst"):
        engine_of([*worst.attacks, attack], GradientVictim())


def test_in_python_and_resumed(tmp_path: Path) -> None:
    def ask(samples: Sequence[tuple[Text, int]]) -> attacks.Outcome:
        return attacks.attack(
            classify,
            samples,
            recipe="worst:pruthi,deepwordbug",
            path=tmp_path / "records.jsonl",
            progress=False,
        )

    def classify(texts: list[Text]) -> Any:
        return GradientVictim(bias=-0.9).logits(texts)

    samples = [(text, 1) for text in TEXTS]
    ask(samples[:3])
    resumed = ask(samples)
    assert resumed.name == "worst"
    whole = attacks.attack(classify, samples, recipe="worst:pruthi,deepwordbug", progress=False)

    def timeless(record: AttackRecord) -> dict[str, Any]:
        return {**record.line(), "seconds": 0}

    assert [*map(timeless, resumed.records)] == [*map(timeless, whole.records)]
    with pytest.raises(ValueError, match="expected"):
        attacks.attack(
            classify,
            samples,
            recipe="worst:deepwordbug,pruthi",
            path=tmp_path / "records.jsonl",
            progress=False,
        )
