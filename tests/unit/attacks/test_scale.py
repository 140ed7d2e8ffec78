"""What an attack finds does not depend on the scale of the victim's logits."""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from attacks.composition import Attack, Search
from attacks.engine import Engine, Limits
from attacks.goals import Goal, Targeted, Untargeted
from attacks.outcome import AttackRecord, Sample
from attacks.search import Beam, Greedy, RandomSearch
from attacks.strategies import Genetic, WholeTexts
from attacks.strategies.appended import RankedAppends
from attacks.transformations.benign_texts import AddWord
from attacks.transformations.variants import Variant, Variants
from tests.unit.attacks.toys import Once, Synonyms
from text import Text

WORDS = [f"w{i}" for i in range(40)]
FACTORS = [1e-8, 1e-5, 1e-4, 1e-2, 1.0, 1e8]


def _table() -> Mapping[str, Sequence[str]]:
    draw = Random(0)
    return {word: draw.sample(WORDS, 4) for word in WORDS}


TABLE = _table()
TEXTS = [" ".join(Random(seed).choices(WORDS, k=6)) for seed in range(20)]


class Linear:
    """Sums of the words' weights, times a factor; and noise as of batches in single precision."""

    name = "linear"

    def __init__(self, factor: float, *, classes: int, noise: float = 0.0) -> None:
        draws = np.random.default_rng(1).normal(size=(len(WORDS), classes))
        self.weights = dict(zip(WORDS, draws.tolist(), strict=True))
        self.classes = classes
        self.factor, self.noise = factor, noise
        self.draws = np.random.default_rng(2)

    def logits(self, texts: Sequence[Text]) -> Any:
        sums = []
        for text in texts:
            rows = [self.weights[word] for word in str(text).split() if word in self.weights]
            # A bias: nothing is an exact tie between classes.
            columns = zip([0.3, *[0.0] * (self.classes - 1)], *rows, strict=True)
            sums.append([math.fsum(column) for column in columns])
        noise = self.draws.normal(size=(len(sums), self.classes)) * self.noise
        return self.factor * (np.array(sums) + noise)


class Letters:
    """Words that the victim does not know, with which nothing changes but the text."""

    def propose(self, jobs: Sequence[Any]) -> list[list[Any]]:
        return [
            [job.current.replace(i, f"{letter}{i}") for i in job.indices for letter in "xyz"]
            for job in jobs
        ]


def attacked(
    victim: Linear, search: Search, goal: Goal, *, in_flight: int = 64, transformation: Any = None
) -> list[AttackRecord]:
    attack = Attack(
        name="toy",
        transformation=transformation or Synonyms(TABLE),
        search=search,
        goal=goal,
        pre_constraints=[Once()],
    )
    clean = Linear(1.0, classes=victim.classes).logits(TEXTS).argmax(axis=1)
    samples = [
        Sample(sample_id=i, text=text, label=int(label))
        for i, (text, label) in enumerate(zip(TEXTS, clean, strict=True))
    ]
    engine = Engine(attack, victim, limits=Limits(in_flight=in_flight))
    return sorted(engine.run(samples), key=lambda one: one.sample_id)


def verdicts(records: Sequence[AttackRecord]) -> list[tuple[Any, ...]]:
    return [(one.outcome, one.adversarial, one.words_changed, one.queries) for one in records]


SEARCHES: dict[str, Search] = {
    "delete": Greedy(),
    "unk": Greedy(ranking="unk"),
    "saliency": Greedy(ranking="weighted-saliency"),
    "beam": Beam(width=3, depth=3),
    "random": RandomSearch(tries=3),
}


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_attack_at_every_scale(name: str, classes: int) -> None:
    search = SEARCHES[name]
    for goal in (Untargeted(), Targeted(target=1)):
        found = [
            verdicts(attacked(Linear(factor, classes=classes), search, goal)) for factor in FACTORS
        ]
        outcomes = {outcome for outcome, *_ in found[0]}
        assert "succeeded" in outcomes
        assert all(one == found[0] for one in found)


@pytest.mark.parametrize("factor", FACTORS)
def test_noise_of_the_sixth_digit_changes_nothing_at_any_scale(factor: float) -> None:
    # Replacements that change nothing are ties at every scale: noise does not choose among them.
    for transformation in (None, Letters()):
        still, noisy = (
            attacked(
                Linear(factor, classes=2, noise=noise),
                Greedy(),
                Untargeted(),
                in_flight=in_flight,
                transformation=transformation,
            )
            for noise, in_flight in ((0.0, 64), (1e-7, 3))
        )
        assert verdicts(still) == verdicts(noisy)


TWICE = Variants(
    [Variant("first", lambda word: TABLE[word][0]), Variant("second", lambda word: TABLE[word][1])]
)
SORTED: dict[str, tuple[Search, Any]] = {
    "genetic": (Genetic(population=8, generations=5), None),
    "improved": (Genetic(population=8, generations=5, crossover="point", changes=5), None),
    "words added": (RankedAppends(length=5), AddWord(pool=[*WORDS[:15], "x", "y"], side="both")),
    "words put back": (WholeTexts(stages=2), TWICE),
}


@pytest.mark.parametrize("name", SORTED)
def test_rounding_does_not_choose_among_equal_scores(name: str) -> None:
    search, transformation = SORTED[name]
    for classes in (2, 4):
        still, *noisy = (
            attacked(
                Linear(1.0, classes=classes, noise=noise),
                search,
                Untargeted(),
                in_flight=in_flight,
                transformation=transformation or Letters(),
            )
            for noise, in_flight in ((0.0, 64), (1e-10, 1), (1e-10, 3))
        )
        assert any(record.outcome == "succeeded" for record in still)
        assert all(verdicts(one) == verdicts(still) for one in noisy)


@pytest.mark.parametrize("factor", [10.0**power for power in range(-8, 1)])
def test_two_classes_by_their_probabilities(factor: float) -> None:
    # The probability of one of two classes grows with the margin, and is blind where it is 1.
    found = [
        verdicts(attacked(Linear(factor, classes=2), Greedy(), Untargeted(score=score)))
        for score in ("margin", "probability")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("score", ["margin", "probability"])
@pytest.mark.parametrize("factor", [1e-8, 1.0, 1e8])
def test_success_is_the_argmax(search: str, score: Any, factor: float) -> None:
    for goal in (Untargeted(score=score), Targeted(target=2, score=score)):
        for one in attacked(Linear(factor, classes=3), SEARCHES[search], goal):
            if one.outcome == "skipped":
                continue
            prediction = one.adversarial_prediction
            reached = prediction != one.label if isinstance(goal, Untargeted) else prediction == 2
            assert reached == (one.outcome == "succeeded")


def test_a_class_that_is_excluded_is_no_scale() -> None:
    # Such logits say "never"; they must not make all others look alike.
    class Excluding(Linear):
        def logits(self, texts: Sequence[Text]) -> Any:
            return np.concatenate([super().logits(texts), np.full((len(texts), 1), -1e30)], axis=1)

    found = [
        verdicts(attacked(kind(1.0, classes=2), Greedy(), Untargeted()))
        for kind in (Linear, Excluding)
    ]
    assert found[0] == found[1]
