"""Goals of attacks on models that are no classifiers, by closed cases and brute force."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from attacks.composition import Attack
from attacks.constraints.preconstraints import RepeatModification
from attacks.document import Document
from attacks.engine import Engine
from attacks.goals import Untargeted
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.search import Greedy
from attacks.task_figures import task_figures
from attacks.task_goals import (
    ChoiceReading,
    EntitiesChanged,
    LabelsChanged,
    Moved,
    TaggedWords,
    align_tags,
)
from tests.unit.attacks.outcomes import record
from tests.unit.attacks.toys import Synonyms
from text import Text

TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")


def conll_entities(tags: tuple[str, ...]) -> set[tuple[str, int, int]]:
    """Entities by their definition: every span is tried."""
    types = [tag[2:] for tag in tags]

    def begins(i: int) -> bool:
        return tags[i][0] == "B" or (tags[i][0] == "I" and (i == 0 or types[i - 1] != types[i]))

    return {
        (types[start], start, end)
        for start in range(len(tags))
        for end in range(start + 1, len(tags) + 1)
        if begins(start)
        and all(tags[i] == f"I-{types[start]}" for i in range(start + 1, end))
        and (end == len(tags) or tags[end] != f"I-{types[start]}")
    }


def test_an_entity_is_lost_or_invented_exactly_where_the_score_is_above_0() -> None:
    goal = EntitiesChanged(tags=TAGS)
    words, random = ("a", "b", "c"), np.random.default_rng(0)
    every = list(product(TAGS, repeat=3))
    changed = set()
    for gold in every:
        for i in random.choice(len(every), 8, replace=False):
            logits = random.normal(size=(3, 5))
            for row, tag in zip(logits, every[i], strict=True):
                row[TAGS.index(tag)] = row.max() + 0.5
            answers = np.empty(1, dtype=object)
            answers[0] = TaggedWords(words, (0, 1, 2), logits)
            label = [(words, gold)]
            assert goal.predictions(answers) == [every[i]]
            (reached,) = goal.reached(answers, label).tolist()
            assert reached == (conll_entities(every[i]) != conll_entities(gold))
            assert reached == (goal.judge(answers, label)[0] > 0)
            changed.add(reached)
    assert changed == {True, False}


def test_a_text_is_right_if_it_has_the_gold_entities() -> None:
    goal = EntitiesChanged(tags=TAGS)
    # I-X begins an entity as B-X does, unless one of its type ends just before.
    for gold, predicted in product(product(TAGS, repeat=3), repeat=2):
        same = conll_entities(gold) == conll_entities(predicted)
        assert goal.right(predicted, gold) == same
    classes = LabelsChanged(names=("a", "b"))
    assert classes.right(("a", "b"), ("b", "a"))
    assert not classes.right(("a",), ("b", "a"))


class FirstInside:
    """A tagger that begins entities with I-X; "bad" hides the entity behind it."""

    name, task = "tags", "tagging"

    def logits(self, texts: Sequence[Text]) -> Any:
        answers = np.empty(len(texts), dtype=object)
        for row, text in enumerate(texts):
            words = str(text).split()
            tags = [2 * (word == "York" and "bad" not in words) for word in words]
            answers[row] = TaggedWords(tuple(words), tuple(range(len(words))), np.eye(5)[tags])
        return answers


def test_a_tagger_with_other_marks_is_attacked() -> None:
    composed = Attack(
        name="toy", transformation=Synonyms(), search=Greedy(), goal=EntitiesChanged(tags=TAGS)
    )
    sample = Sample(sample_id=0, text="plot in York", label=("O", "O", "B-X"))
    (record,) = Engine(composed, FirstInside()).run([sample])
    assert (record.outcome, record.adversarial) == ("succeeded", "bad in York")


def test_words_without_an_answer_are_in_no_entity() -> None:
    goal = EntitiesChanged(tags=TAGS)
    answers = np.empty(1, dtype=object)
    answers[0] = TaggedWords(("a", "b"), (1,), np.array([[0.0, 3.0, 0.0, 0.0, 0.0]]))
    assert goal.predictions(answers) == [("O", "B-X")]
    assert goal.reached(answers, [(("a", "b"), ("O", "B-X"))]).tolist() == [False]
    assert goal.reached(answers, [(("a", "b"), ("B-Y", "B-X"))]).tolist() == [True]


@pytest.mark.parametrize(
    ("changed", "tags"),
    [
        ("in new york today", "O B-X I-X O"),
        ("im new york today", "O B-X I-X O"),
        ("new york today", "B-X I-X O"),
        ("i n new york today", "O O B-X I-X O"),
        ("in new york today now", "O B-X I-X O O"),
        ("in nev york today", None),
        ("in new york, today", None),
        ("in new big york today", None),
        ("in new today", None),
    ],
)
def test_the_words_of_entities_must_stay(changed: str, tags: str | None) -> None:
    words, gold = "in new york today".split(), "O B-X I-X O".split()
    expected = None if tags is None else tuple(tags.split())
    assert align_tags(words, gold, changed.split()) == expected


def test_no_word_of_an_entity_is_changed() -> None:
    document = Document.of("in U.S. - based (New York) today")
    assert document.words == ["in", "U", "S", "based", "New", "York", "today"]
    tags = ("O", "B-X", "O", "O", "B-Y", "I-Y", "O")
    assert EntitiesChanged(tags=TAGS).frozen(document, tags) == {1, 2, 4, 5}
    pair = Document.of(("one two", "three"))
    assert ChoiceReading().frozen(pair, 0) == {2}


def test_a_number_moves_from_the_prediction() -> None:
    goal = Moved(delta=0.5)
    assert goal.gold("a", 3.0) == 3.0
    assert goal.gold("a", 3.0, 1.0) == 1.0
    answers = np.array([[1.25], [0.25]])
    assert goal.judge(answers, np.array([1.0, 1.0])).tolist() == [0.25, 0.75]
    assert goal.reached(answers, np.array([1.0, 1.0])).tolist() == [False, True]


def test_any_class_that_is_lost_or_invented_counts() -> None:
    goal = LabelsChanged(names=("a", "b"))
    every = list(product((-1.0, 2.0), repeat=2))
    for logits, gold in product(every, [(), ("a",), ("b",), ("a", "b")]):
        answers = np.array([logits])
        labels = goal.labels([gold], answers)
        predicted = tuple(n for n, logit in zip("ab", logits, strict=True) if logit > 0)
        assert goal.predictions(answers) == [predicted]
        assert goal.reached(answers, labels).tolist() == [predicted != gold]
        assert (goal.judge(answers, labels)[0] > 0) == (predicted != gold)
    with pytest.raises(ValueError, match=r"got labels \['c'\]"):
        goal.labels([("c",)], np.zeros((1, 2)))


def test_attacks_that_need_a_classifier_refuse_other_goals() -> None:
    goal = Moved(delta=1.0)
    composed = Attack(
        name="swap",
        transformation=Synonyms(),
        search=Greedy(ranking="delete"),
        pre_constraints=[RepeatModification()],
    )
    assert composed.aiming(goal).goal is goal
    for name in ("input-reduction", "append-benign"):
        attack = build(RecipeSettings(recipe=name), goal=Untargeted())
        with pytest.raises(ValueError, match="for a model of regression"):
            attack.aiming(goal)
    with pytest.raises(ValueError, match="needs gradients of a classifier"):
        replace(composed, white_box=True).aiming(goal)
    with pytest.raises(ValueError, match="got a tagger with the tags NN, VB, expected entities"):
        EntitiesChanged(tags=("NN", "VB"))
    with pytest.raises(ValueError, match="delta"):
        Moved(delta=0.0)


def ended(number: int, label: object, prediction: object, after: object = None) -> AttackRecord:
    return record(
        number,
        label=label,
        prediction=prediction,
        outcome="failed" if after is None else "succeeded",
        text="in new york",
        adversarial="im new york",
        adversarial_prediction=after,
    )


def test_figures_are_those_of_scikit_learn_and_scipy() -> None:
    from scipy.stats import spearmanr
    from sklearn.metrics import f1_score

    random = np.random.default_rng(1)
    gold, clean = random.normal(size=(2, 20)).round(1)
    after = clean + random.normal(size=20)
    triples = zip(gold, clean, after, strict=True)
    rows = [ended(i, *map(float, row)) for i, row in enumerate(triples)]
    figures = {k: v.value for k, v in task_figures(rows, "regression").items() if v is not None}
    assert figures == pytest.approx(
        {
            "clean_absolute_error": np.abs(gold - clean).mean(),
            "absolute_error": np.abs(gold - after).mean(),
            "clean_spearman": spearmanr(gold, clean).statistic,
            "spearman": spearmanr(gold, after).statistic,
        }
    )
    sets = random.integers(0, 2, size=(2, 20, 3)).astype(bool)
    names = [[tuple(np.array(["a", "b", "c"])[row].tolist()) for row in rows] for rows in sets]
    rows = [ended(i, label, p) for i, (label, p) in enumerate(zip(*names, strict=True))]
    (f1, interval) = (task_figures(rows, "multi-label")[name] for name in ("f1", "clean_f1"))
    assert f1 == interval
    assert f1 is not None
    assert f1.value == pytest.approx(f1_score(*sets, average="micro"))
    assert f1.low < f1.value < f1.high


def test_the_f1_of_entities_by_hand() -> None:
    gold, clean, after = (("O", "B-X", "I-X"), ("O", "B-X", "I-X"), ("B-Y", "B-X", "O"))
    rows = [ended(0, gold, clean, after), ended(1, gold, ("O", "B-Y", "O"))]
    figures = task_figures(rows, "tagging")
    # Clean: 1 hit of 2 gold and 2 predicted; then none of 2 gold and 3 predicted.
    assert figures["clean_f1"] is not None
    assert figures["f1"] is not None
    assert (figures["clean_f1"].value, figures["f1"].value) == (0.5, 0.0)
