"""LimeAttack: LIME's linear model, and a beam that sees classes alone."""

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from attacks.engine import Engine, Limits
from attacks.strategies import LimeBeam
from attacks.strategies.lime_beam import KERNEL, local_weights
from tests.unit.attacks.test_strategies import LabelVictim, attack
from tests.unit.attacks.toys import SYNONYMS, WEIGHTS, BagVictim, samples

TEXT = "a good film, good plot with a fine end and a good film"


def test_the_linear_model_is_the_ridge_regression_of_lime() -> None:
    random = np.random.default_rng(3)
    kept = (random.random((9, 6)) < 0.6).astype(float)
    kept[0] = 1.0
    right = (random.random(9) < 0.5).astype(float)
    # LIME's own formula: the cosine distance of each row from the first one.
    ones = np.ones(6)
    cosines = kept @ ones / np.maximum(np.linalg.norm(kept, axis=1) * np.sqrt(6), 1e-300)
    near = np.sqrt(np.exp(-((100 * (1 - cosines)) ** 2) / KERNEL**2))
    # Least squares with a row for each text, and one for the penalty of each word.
    root = np.sqrt(near)[:, None]
    rows = np.vstack(
        [root * np.hstack([kept, np.ones((9, 1))]), np.hstack([np.eye(6), np.zeros((6, 1))])]
    )
    target = np.concatenate([root[:, 0] * right, np.zeros(6)])
    expected = np.linalg.lstsq(rows, target, rcond=None)[0][:6]
    assert local_weights(kept, right) == pytest.approx(expected)


@pytest.mark.parametrize("bias", [-1.5, -3.0, -5.0])
@pytest.mark.parametrize("width", [1, 2, 10])
def test_classes_are_enough(bias: float, width: int) -> None:
    engines = [
        Engine(attack(LimeBeam(width=width)), kind(bias=bias), seed=2)
        for kind in (LabelVictim, BagVictim)
    ]
    label, score = (next(iter(engine.run(samples(TEXT)))) for engine in engines)
    # It never looks at scores.
    assert (label.outcome, label.adversarial) == (score.outcome, score.adversarial)
    assert (label.queries, label.unique_queries) == (score.queries, score.unique_queries)


def test_queries_are_counted_and_limited() -> None:
    whole: list[int] = []
    for budget in (None, 1, 5, 12, 13, 40):
        victim = LabelVictim(bias=-1.0)
        limits = Limits(query_budget=budget)
        (record,) = Engine(attack(LimeBeam()), victim, limits=limits).run(samples(TEXT))
        # The last question confirms a success, and is not counted.
        asked = sum(map(len, victim.asked)) - (record.outcome == "succeeded")
        assert record.queries == record.unique_queries == asked
        assert record.queries <= (budget or record.queries)
        whole.append(record.queries)
    assert whole[1:3] == [1, 5]


def test_one_round_of_a_wide_beam_is_every_text() -> None:
    """With room for all texts, it finds one if there is one, with the fewest changes so far."""
    for seed in range(8):
        words = Random(seed).choices(["good", "fine", "film", "plot", "a", "bad"], k=4)
        bias = -0.5 * seed / 4
        total = sum(WEIGHTS.get(word, 0.0) for word in words)
        if total + bias <= 0:
            continue
        choices = [(word, *SYNONYMS.get(word, ())) for word in words]
        reachable = any(
            sum(WEIGHTS.get(word, 0.0) for word in text) + bias < 0 for text in product(*choices)
        )
        search: Any = LimeBeam(width=1000)
        (record,) = Engine(attack(search), LabelVictim(bias=bias)).run(samples(" ".join(words)))
        assert (record.outcome == "succeeded") == reachable


def test_the_order_is_that_of_the_words_that_matter() -> None:
    # The class hangs on one word of twelve.
    text = "a film and a plot with an end and one fine word"
    victim = LabelVictim(bias=-0.5)
    (record,) = Engine(attack(LimeBeam()), victim, seed=1).run(samples(text))
    assert record.outcome == "succeeded"
    probes = len(text.split()) - 1
    # The first word that is tried: good, okay; then the text is over.
    assert record.queries <= 1 + probes + 2
    with pytest.raises(ValueError, match="width"):
        LimeBeam(width=0)
