"""Searches other than the greedy one: texts they reach, in any company, within their budget."""

import math
from collections.abc import Sequence
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from attacks.composition import Attack, Search
from attacks.constraints import EditDistance, InsideThreat, WordsChanged
from attacks.constraints.preconstraints import MaxModificationRate
from attacks.document import Candidate, Document
from attacks.engine import Engine, Limits
from attacks.goals import Floats, Unchanged
from attacks.outcome import AttackRecord, Sample
from attacks.strategies import (
    FlipBeam,
    Genetic,
    HardLabel,
    Leap,
    LimeBeam,
    RankedActions,
    Reduction,
    StagedGreedy,
    Swarm,
)
from attacks.strategies.rounds import draw_index
from attacks.strategies.swarm import levy
from attacks.summary import summarise
from certify.threats import WordEditDistance
from tests.unit.attacks.toys import SYNONYMS, BagVictim, Once, Synonyms, samples, value
from text import Text, WordSettings

TEXT = "a good film, good plot with a fine end and a good film"
SEARCHES: dict[str, Search] = {
    "genetic": Genetic(population=8, generations=5),
    "improved": Genetic(population=8, generations=5, crossover="point", changes=5),
    "swarm": Swarm(population=6, generations=4),
    "leap": Leap(population=6, generations=4),
    "hard label": HardLabel(tries=60, at_once=10, population=8, generations=4),
    "flips": FlipBeam(width=4, flips=4),
}


class GradientVictim(BagVictim):
    """A bag of words that says what a replacement gains."""

    def flip_gains(
        self, documents: Sequence[Document], candidates: Sequence[Sequence[Candidate]]
    ) -> list[list[float]]:
        return [
            [value(document.text) - value(one.text) for one in every]
            for document, every in zip(documents, candidates, strict=True)
        ]


class LabelVictim(BagVictim):
    """Answers with classes alone."""

    def logits(self, texts: Sequence[Text]) -> Floats:
        classes: Floats = np.eye(2)[super().logits(texts).argmax(axis=1)]
        return classes


class SaturatedVictim(GradientVictim):
    """Its logits are behind a tanh that is 1 in single precision."""

    def logits(self, texts: Sequence[Text]) -> Floats:
        return np.tanh(100 * super().logits(texts)).astype(np.float32).astype(np.float64)


def attack(search: Search, **settings: Any) -> Attack:
    parts: dict[str, Any] = {"transformation": Synonyms(), "pre_constraints": [Once()], **settings}
    return Attack(name="toy", search=search, **parts)


def run(search: Search, text: str = TEXT, bias: float = -0.5, **settings: Any) -> AttackRecord:
    (record,) = Engine(attack(search, **settings), GradientVictim(bias=bias)).run(samples(text))
    return record


@pytest.mark.parametrize("name", SEARCHES)
def test_each_search_reaches_what_can_be_reached(name: str) -> None:
    record = run(SEARCHES[name], bias=-2.0)
    assert record.outcome == "succeeded"
    assert isinstance(record.adversarial, str)
    assert value(record.adversarial) - 2.0 <= 0  # the first class wins where both are equal
    nothing = run(SEARCHES[name], "film film", bias=1.0)
    assert (nothing.outcome, nothing.adversarial) == ("failed", "film film")
    assert run(SEARCHES[name], "a the", bias=1.0).outcome == "failed"


@pytest.mark.parametrize("name", SEARCHES)
def test_a_score_that_does_not_move_is_recorded(name: str) -> None:
    (blind,) = Engine(attack(SEARCHES[name]), SaturatedVictim(bias=5.0)).run(samples(TEXT))
    seeing = run(SEARCHES[name], bias=5.0)
    assert blind.outcome == seeing.outcome == "failed"
    classes_alone = name == "hard label"
    assert blind.score_change == (None if classes_alone else 0)
    assert summarise([blind], score="margin").unreliable != classes_alone
    assert (seeing.score_change is None) == classes_alone
    assert not summarise([seeing], score="margin").unreliable
    nothing = run(SEARCHES[name], "a the")  # has no synonyms
    assert nothing.score_change is None


@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_in_any_company(name: str) -> None:
    texts = [TEXT, "a good good plot", "fine", "good " * 9, "plot film", TEXT]

    def attacked(order: Sequence[int], in_flight: int) -> dict[int, tuple[Any, ...]]:
        engine = Engine(
            attack(SEARCHES[name]),
            GradientVictim(bias=-0.9),
            limits=Limits(in_flight=in_flight),
            seed=5,
        )
        chosen = [Sample(sample_id=i, text=texts[i], label=1) for i in order]
        return {
            one.sample_id: (one.outcome, one.adversarial, one.queries, one.unique_queries)
            for one in engine.run(chosen)
        }

    together = attacked(range(6), 64)
    assert together == attacked([5, 2, 4, 0, 1, 3], 1) == attacked([3, 1, 0, 2, 5, 4], 2)
    assert attacked([3], 64)[3] == together[3]


@pytest.mark.parametrize("name", SEARCHES)
def test_the_budget_is_kept(name: str) -> None:
    for budget in (1, 2, 3, 5, 8, 13, 40):
        victim = GradientVictim(bias=5.0)
        engine = Engine(attack(SEARCHES[name]), victim, limits=Limits(query_budget=budget))
        (record,) = engine.run(samples(TEXT))
        assert record.queries <= budget
        assert record.unique_queries == sum(map(len, victim.asked)) <= record.queries


@pytest.mark.parametrize("name", ["genetic", "improved", "swarm", "leap", "hard label"])
def test_mated_texts_keep_the_number_of_changed_words(name: str) -> None:
    for maximum in (1, 2, 3):
        bound = WordsChanged(maximum=maximum)
        for seed in range(4):
            engine = Engine(
                attack(SEARCHES[name], constraints=[bound]), BagVictim(bias=-0.9), seed=seed
            )
            for record in engine.run(samples(TEXT, "good good plot good")):
                assert record.words_changed <= maximum


JOINING = {
    **{name: SEARCHES[name] for name in ("genetic", "improved", "swarm", "leap", "hard label")},
    "lime": LimeBeam(width=4),
}
"""Searches that make one text of several."""


@pytest.mark.parametrize("name", JOINING)
def test_joined_texts_keep_the_constraints_about_whole_texts(name: str) -> None:
    threat = WordEditDistance(k=1, words=WordSettings())
    distance = EditDistance(5)
    rate = MaxModificationRate(0.2)
    for seed in range(4):
        for settings in (
            {"constraints": [InsideThreat(threat)]},
            {"constraints": [distance]},
            {"pre_constraints": [Once(), rate]},
        ):
            engine = Engine(attack(JOINING[name], **settings), BagVictim(bias=-0.9), seed=seed)
            for record in engine.run(samples(TEXT, "good good plot good")):
                text, changed = str(record.text), str(record.adversarial)
                if "pre_constraints" in settings:
                    assert record.words_changed <= math.ceil(0.2 * record.words)
                elif settings["constraints"] == [distance]:
                    assert Levenshtein.distance(text, changed) <= distance.maximum
                else:
                    assert threat.contains(text, changed)


@pytest.mark.parametrize("name", JOINING)
def test_a_search_inside_a_threat_finds_the_one_text_of_it(name: str) -> None:
    # One word of nine may change, and one of its replacements succeeds.
    threat = WordEditDistance(k=1, words=WordSettings())
    text = "the okay film has a fine fine plot here"
    for seed in range(4):
        searched = attack(JOINING[name], constraints=[InsideThreat(threat)])
        (record,) = Engine(searched, BagVictim(bias=-1.0), seed=seed).run(samples(text))
        assert record.outcome == "succeeded"
        assert record.adversarial == text.replace("plot", "bad")


def test_a_population_finds_the_lowest_text() -> None:
    words = [[w, *SYNONYMS.get(w, ())] for w in "a good film good plot".split()]
    lowest = min(value(" ".join(choice)) for choice in product(*words))
    for search in (Genetic(population=30), Swarm(population=30), Leap(population=30)):
        record = run(search, "a good film good plot", bias=10.0)
        assert record.outcome == "failed"
        assert isinstance(record.adversarial, str)
        assert value(record.adversarial) == lowest


def test_a_child_has_weights_of_its_own_where_its_parents_do_not_fit() -> None:
    members: list[Any] = [
        SimpleNamespace(document=Document.of(text), weights=[1.0] * len(text.split()))
        for text in ("a good film", "a film")
    ]
    _, weights = Genetic()._child(SimpleNamespace(), *members)  # type: ignore[arg-type] # not read
    # The search changes the weights of a child in their place.
    assert weights == members[0].weights
    assert weights is not members[0].weights


def test_all_texts_of_a_round_are_one_query() -> None:
    for search in (Genetic(population=20, generations=3), Swarm(population=20, generations=3)):
        victim = BagVictim(bias=10.0)
        list(Engine(attack(search), victim).run(samples(*[TEXT] * 8)))
        # The rounds of eight samples are those of the longest, not of their sum.
        assert len(victim.asked) < 3 * 15


@pytest.mark.parametrize("bias", [-0.5, -2.0, -4.0])
def test_classes_are_enough_for_a_hard_label_search(bias: float) -> None:
    search = HardLabel(tries=200, population=12, generations=6)
    engines = [Engine(attack(search), kind(bias=bias), seed=1) for kind in (LabelVictim, BagVictim)]
    label, score = (next(iter(engine.run(samples(TEXT)))) for engine in engines)
    assert label.outcome == "succeeded"
    # It never looks at scores.
    assert (label.adversarial, label.queries) == (score.adversarial, score.queries)
    # Each word that is left changed is needed.
    assert isinstance(label.adversarial, str)
    original, changed = Document.of(TEXT), Document.of(label.adversarial)
    for i, (old, new) in enumerate(zip(original.words, changed.words, strict=True)):
        if old != new:
            assert value(changed.rewrite({i: old}, original).text) + bias >= 0


def test_flips_are_asked_about_in_the_order_of_their_gain() -> None:
    victim = GradientVictim(bias=-1.0)
    (record,) = Engine(attack(FlipBeam(width=1, flips=1)), victim).run(samples("plot good fine"))
    # The largest loss of weight is that of plot -> bad.
    assert record.queries == 2
    assert record.adversarial == "bad good fine"


class Shorter:
    """Deletes words."""

    def propose(self, jobs: Sequence[Any]) -> list[list[Candidate]]:
        return [[job.current.delete(i) for i in job.indices] for job in jobs]


def test_a_reduction_keeps_the_prediction() -> None:
    reduced = attack(Reduction(), transformation=Shorter(), goal=Unchanged(), pre_constraints=())
    victim = BagVictim(bias=-0.5)
    (record,) = Engine(reduced, victim).run(samples("a fine and good film with a dull end"))
    assert (record.outcome, record.adversarial, record.adversarial_prediction) == (
        "succeeded",
        "good",
        1,
    )
    (single,) = Engine(reduced, victim).run(samples("good"))
    assert (single.outcome, single.adversarial) == ("failed", "good")
    (wrong,) = Engine(reduced, victim).run(samples("bad film"))
    assert wrong.outcome == "skipped"


class Weighing(BagVictim):
    """Counts the documents whose gradients it is asked for."""

    weighed = 0

    def word_weights(self, documents: Sequence[Document], **settings: Any) -> list[list[float]]:
        self.weighed += len(documents)
        return super().word_weights(documents, **settings)


class Opaque(BagVictim):
    """Has the method, and no gradients."""

    differentiable = False

    def word_weights(self, *_: Any, **__: Any) -> list[list[float]]:
        raise AssertionError


def test_a_reduction_follows_the_gradient_where_there_is_one() -> None:
    text = "a fine and good film with a dull end in the old town"
    reduced = attack(Reduction(), transformation=Shorter(), goal=Unchanged(), pre_constraints=())
    seeing, blind = Weighing(bias=-0.5), Opaque(bias=-0.5)
    (white,) = Engine(reduced, seeing).run(samples(text))
    (black,) = Engine(reduced, blind).run(samples(text))
    assert white.adversarial == black.adversarial == "good"
    # At most five texts for each of the words that go; without gradients all words of five texts.
    assert 0 < white.queries <= 1 + 5 * 12
    assert black.queries > 3 * white.queries
    assert 0 < seeing.weighed <= 1 + 5 * 12
    (deleting,) = Engine(
        attack(
            Reduction(importance="delete"),
            transformation=Shorter(),
            goal=Unchanged(),
            pre_constraints=(),
        ),
        Weighing(bias=-0.5),
    ).run(samples(text))
    assert (deleting.adversarial, deleting.queries) == (black.adversarial, black.queries)


class Acting:
    """Replaces, inserts behind, or merges, each with words of its own."""

    def propose(self, jobs: Sequence[Any]) -> list[list[Candidate]]:
        return [self._of(job) for job in jobs]

    def _of(self, job: Any) -> list[Candidate]:
        current, stage = job.current, job.stage
        if stage == 1:
            words = {"good": ("fine", "okay"), "film": ("dull",), "plot": ("dull", "story")}
            return [
                current.replace(i, word)
                for i in job.indices
                for word in words.get(current.words[i], ())
            ]
        if stage == 2:
            return [current.insert(i, "dull", after=True) for i in job.indices]
        pairs = [i for i in job.indices if i + 1 in job.indices]
        return [current.merge(i, "okay") for i in pairs]


def test_places_are_ranked_once_and_visited_once() -> None:
    victim = BagVictim(bias=10.0)
    ranked = attack(RankedActions(), transformation=Acting())
    (record,) = Engine(ranked, victim).run(samples("good plot"))
    # Ranking: good -> fine, okay; plot -> dull, story; "dull" behind each of the two; merged.
    ranking = {
        *("fine plot", "okay plot", "good dull", "good story"),
        *("good dull plot", "good plot dull", "okay"),
    }
    assert set(victim.asked[1]) == ranking
    # "okay" gains most, and is not merged; then come "dull" for "plot", and "dull" before that.
    assert [set(texts) for texts in victim.asked[2:]] == [
        {"okay dull", "okay story"},
        {"okay dull dull"},
    ]
    assert (record.outcome, record.adversarial) == ("failed", "okay dull dull")
    # The candidates of the first place are asked about again, as the authors' code counts them.
    assert (record.queries, record.unique_queries) == (1 + 7 + 2 + 2 + 1, 1 + 7 + 2 + 1)


class Costly(Acting):
    """Replaces good by awful, merges to bad, inserts dull."""

    def _of(self, job: Any) -> list[Candidate]:
        current = job.current
        if job.stage == 1:
            return [current.replace(i, "awful") for i in job.indices if current.words[i] == "good"]
        if job.stage == 3:
            return [current.merge(i, "bad") for i in job.indices if i + 1 in job.indices]
        return super()._of(job)


def test_what_an_action_rules_out() -> None:
    victim = BagVictim(bias=20.0)
    ranked = attack(RankedActions(), transformation=Costly())
    (record,) = Engine(ranked, victim).run(samples("good film"))
    # The replaced word is not merged, and nothing is inserted next to what was inserted.
    assert record.adversarial == "awful dull film"
    assert [set(texts) for texts in victim.asked[2:]] == [{"awful dull film"}]
    for budget in range(1, 8):
        limits = Limits(query_budget=budget)
        (short,) = Engine(ranked, BagVictim(bias=20.0), limits=limits).run(samples("good film"))
        assert short.queries == min(budget, record.queries)
    (nothing,) = Engine(ranked, victim).run(samples(""))
    assert nothing.outcome == "failed"


def test_places_move_with_what_is_inserted_and_merged() -> None:
    class Marking(Acting):
        def _of(self, job: Any) -> list[Candidate]:
            current = job.current
            if job.stage == 2:
                return [current.insert(i, "bad", after=True) for i in job.indices[:1]]
            words = {"film": "dull", "plot": "awful"} if job.stage == 1 else {}
            return [
                current.replace(i, words[current.words[i]])
                for i in job.indices
                if current.words[i] in words
            ]

    ranked = attack(RankedActions(), transformation=Marking())
    (record,) = Engine(ranked, BagVictim(bias=20.0)).run(samples("the plot film"))
    assert record.adversarial == "the bad awful dull"


def test_the_best_action_of_the_ranking_may_be_enough() -> None:
    ranked = attack(RankedActions(), transformation=Acting())
    (record,) = Engine(ranked, BagVictim(bias=-1.5)).run(samples("good plot"))
    assert (record.outcome, record.queries) == ("succeeded", 8)


class Staged:
    """Stage 0 replaces, stage 1 inserts."""

    def propose(self, jobs: Sequence[Any]) -> list[list[Candidate]]:
        return [
            [
                job.current.insert(i, "dull") if job.stage else job.current.replace(i, "fine")
                for i in job.indices
            ]
            for job in jobs
        ]


def test_stages_change_a_word_twice() -> None:
    record = run(StagedGreedy(), "good film", bias=0.5, transformation=Staged())
    # good -> fine (1.5), dull before it (0.5), film -> fine is no improvement, dull before it.
    assert record.adversarial == "dull fine dull film"
    assert record.outcome == "succeeded"


def test_what_is_drawn_follows_the_weights() -> None:
    random = Random(0)
    found = [draw_index(random, [1.0, 0.0, 3.0]) for _ in range(4000)]
    assert found.count(1) == 0
    assert 0.7 < found.count(2) / 4000 < 0.8
    assert draw_index(random, []) is None
    assert draw_index(random, [0.0, 0.0]) is None


@pytest.mark.parametrize(
    ("made", "settings"),
    [
        (Genetic, {"population": 1}),
        (Genetic, {"crossover": "none"}),
        (Genetic, {"temperature": 0.0}),
        (Swarm, {"generations": 0}),
        (HardLabel, {"tries": 0}),
        (Reduction, {"width": 0}),
        (Reduction, {"importance": "loss"}),
        (FlipBeam, {"flips": 0}),
        (WordsChanged, {}),
        (WordsChanged, {"share": 1.5}),
    ],
)
def test_wrong_settings(made: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"got .*expected"):
        made(**settings)


def test_parts_of_leap() -> None:
    swarm = Leap(population=400)
    context: Any = SimpleNamespace(tie=1e-9, random=Random(0))
    first = [1.0, 2.0, 6.0]
    # The mean is 3: below it linear from 0.2 to 0.8, and never less.
    assert swarm._inertia(context, 0.5, 2.0, first) == pytest.approx(0.5)
    assert swarm._inertia(context, 0.5, 1.0, first) == pytest.approx(0.2)
    assert swarm._inertia(context, 0.5, -4.0, first) == pytest.approx(0.2)
    flights = [swarm._inertia(context, 0.5, 3.0, first) for _ in range(200)]
    assert 0.5 <= min(flights) < 0.52
    assert 0.78 < max(flights) <= 0.8
    assert swarm._turns([math.log(3), 0.0]) == pytest.approx([0.75, 0.25])
    assert swarm._draw(context.random, [0.0, 0.5, 0.5 + 1e-7, 0.2]) == 1
    assert swarm._draw(context.random, [0.0, 0.0]) is None
    speeds = swarm._speeds(Random(0))
    assert all(abs(speed) <= 3 for speed in speeds)
    # Flights crowd around zero, unlike uniform velocities (0.33 within 1).
    assert sum(abs(speed) < 1 for speed in speeds) > 0.4 * len(speeds)


def test_a_flight_by_hand() -> None:
    numbers: Any = iter([2.0, 1.0, -40.0, 1.0, -1.0, 1.0])
    draw: Any = SimpleNamespace(gauss=lambda mean, spread: next(numbers))
    # Mantegna's sigma, K and C for 1.5; a ratio below -10 is drawn again.
    sigma, k, c = 0.6965745, 1.5992, 2.737
    for x in (2.0, -1.0):
        ratio = sigma * x
        expected = ratio * ((k - 1) * math.exp(-ratio / c) + 1)
        assert levy(draw) == pytest.approx(expected, rel=1e-4)
