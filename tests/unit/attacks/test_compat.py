"""`compat="textattack"`: exact where a recipe has it, refused where it has not."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from attacks import attack
from attacks.composition import Group
from attacks.constraints.thought_vectors import ThoughtVectors
from attacks.document import Document
from attacks.engine import Engine
from attacks.goals import Targeted, Unsure, Untargeted, make_goal
from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe, recipe_names
from attacks.resources.catalogue import Resources
from attacks.transformations import NeighbourKey
from attacks.victims.kinds import CallableVictim
from benchmarks.parity.recipes import CHANGED, compat_table, compose
from measure.attack_settings import AttackSettings, check_attacks
from tests.unit.attacks.lexicon import small_vectors
from text import Text

ROOT = Path(__file__).parents[3]
WEIGHTS = {
    "good": 2.0,
    "fine": 1.0,
    "great": 1.3,
    "okay": 0.25,
    "dull": -1.0,
    "bad": -2.0,
    "film": 0.11,
    "movie": -0.07,
    "plot": 0.05,
    "story": 0.17,
    "the": 0.03,
    "is": -0.02,
    "and": 0.013,
    "a": 0.04,
    "but": -0.21,
    "with": 0.09,
    "end": -0.31,
}
"""All different, so that no tie decides."""
VECTORS = """\
good 1.0 0.0 0.1
fine 0.9 0.1 0.1
great 0.8 0.3 0.0
bad -1.0 0.1 0.0
okay 0.3 0.6 0.0
dull -0.4 0.6 0.2
film 0.0 1.0 0.1
movie 0.05 1.0 0.1
plot 0.1 0.8 0.4
story 0.1 0.7 0.5
"""
TEXTS = [
    "The film is good, and a fine story",
    "Good plot with a dull end",
    "a fine story, but dull and good",
    "good",
    "the movie is okay and good",
    "bad film",
    "is fine",
]
REFUSED = {
    name: reason for name in recipe_names() if (reason := find_recipe(name).refused) is not None
}
SKIPPED = ("skipped", 1, None)
RECORDED: dict[str, list[tuple[str, int, str | None]]] = {
    "input-reduction": [
        ("succeeded", 14, "film, and fine "),
        ("succeeded", 12, "Good with "),
        ("succeeded", 13, "fine, good"),
        ("failed", 2, None),
        ("succeeded", 10, "is and good"),
        SKIPPED,
        ("succeeded", 4, "fine"),
    ],
    "kuleshov": [
        ("succeeded", 35, "The film is dull, and a fine story"),
        SKIPPED,  # the gold class has less than 0.7
        ("succeeded", 35, "a fine story, but dull and dull"),
        ("succeeded", 3, "fine"),  # still predicted, with less than 0.7
        ("succeeded", 21, "the movie is okay and plot"),
        SKIPPED,
        SKIPPED,
    ],
    "pruthi": [
        ("failed", 62, None),
        ("succeeded", 39, "Geood plot with a dull end"),
        ("succeeded", 62, "a fine story, but dull and geood"),
        ("succeeded", 12, "geood"),
        ("succeeded", 49, "the movie is okay and geood"),
        SKIPPED,
        ("succeeded", 15, "is feine"),
    ],
}
"""Outcome, queries and text that TextAttack 0.3.11 gave with this victim, without Kuleshov's
language model and with e as Pruthi's only letter."""


def answers(texts: Sequence[Text]) -> list[list[float]]:
    rows = []
    for text in texts:
        words = str(text).replace(",", " ").lower().split()
        positive = 1 / (1 + np.exp(0.5 - sum(WEIGHTS.get(word, 0.0) for word in words)))
        rows.append([1 - positive, positive])
    return rows


@pytest.mark.parametrize("name", RECORDED)
def test_the_answers_of_the_reference(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "vectors.txt").write_text(VECTORS)
    reference = compose(name, Resources(tmp_path, vectors=tmp_path / "vectors.txt"))
    engine = Engine(reference, CallableVictim(answers, outputs="probabilities"))
    chosen = [Sample(sample_id=i, text=text, label=1) for i, text in enumerate(TEXTS)]
    records = sorted(engine.run(chosen), key=lambda record: record.sample_id)
    assert [
        (
            record.outcome,
            record.queries,
            record.adversarial if record.outcome == "succeeded" else None,
        )
        for record in records
    ] == RECORDED[name]


def test_each_recipe_has_it_or_is_refused() -> None:
    # Attacks that ask for gradients have none of the fixed victim.
    assert {*CHANGED, "a2t", "a2t-mlm"} == set(recipe_names()) - set(REFUSED)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_it_is_refused_before_anything_is_loaded(name: str, tmp_path: Path) -> None:
    message = rf"got compat textattack for {name}, expected none .*: "
    with pytest.raises(ValueError, match=message) as error:
        build(RecipeSettings(recipe=name, compat="textattack"), Resources(tmp_path))
    assert str(error.value).endswith(REFUSED[name])
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=message):
        check_attacks(AttackSettings(recipe=f"pwws,{name}", compat="textattack"))
    with pytest.raises(ValueError, match=message):
        attack(answers, [("good", 1)], recipe=name, compat="textattack")


def test_language_models_are_left_out(tmp_path: Path) -> None:
    for name in set(recipe_names()) - set(REFUSED):
        if "fluency" in find_recipe(name).settings:
            for fluency in (None, 2.0):
                given = RecipeSettings(recipe=name, compat="textattack", fluency=fluency)
                with pytest.raises(ValueError, match=r"expected fluency 0 .* GPT-2"):
                    build(given, Resources(tmp_path))


def test_the_page_says_what_differs() -> None:
    page = (ROOT / "docs" / "attacks" / "parity.md").read_text("utf-8")
    assert compat_table() in page
    for name, change in CHANGED.items():
        assert any(
            line.startswith(f"| {name} |") and line.endswith(f"| {change or 'nothing'} |")
            for line in page.splitlines()
        ), name


def test_recipes_are_compared_with_all_their_parts(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(VECTORS)
    resources = Resources(tmp_path, vectors=tmp_path / "vectors.txt")
    kuleshov = compose("kuleshov", resources)
    assert ThoughtVectors in map(type, kuleshov.constraints)
    assert kuleshov.goal == Unsure(score="probability", bound=0.7)
    pruthi: Any = compose("pruthi", resources)
    assert NeighbourKey in map(type, pruthi.transformation.transformations)


# Its parts


def test_a_probability_decides() -> None:
    goal = Unsure(bound=0.7, score="probability")
    logits = np.log([[0.31, 0.69], [0.29, 0.71], [0.6, 0.4]])
    labels = np.array([1, 1, 1])
    assert goal.reached(logits, labels).tolist() == [True, False, True]
    assert goal.judge(logits, labels) == pytest.approx([0.31, 0.29, 0.6])
    rows = np.array([[0.31, 0.69], [0.29, 0.71], [0.6, 0.4]])
    assert goal.reached(rows, labels, probabilities=rows).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="bound"):
        Unsure(bound=0.0)


def test_rows_are_probabilities_for_the_bound_as_well(tmp_path: Path) -> None:
    def answers(texts: Sequence[Text]) -> Any:
        return np.array([[0.2, 0.8] if "good" in text else [0.4, 0.6] for text in texts])

    (tmp_path / "vectors.txt").write_text(VECTORS)
    reference = compose("kuleshov", Resources(tmp_path, vectors=tmp_path / "vectors.txt"))
    victims = [CallableVictim(answers, outputs=outputs) for outputs in ("logits", "probabilities")]
    sample = Sample(sample_id=0, text="a good film", label=1)
    (read,), (given,) = (Engine(reference, victim).run([sample]) for victim in victims)
    assert (read.outcome, read.holds) == (given.outcome, given.holds) == ("succeeded", True)
    assert read.adversarial == given.adversarial


def test_a_bound_of_the_probability_stays(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(VECTORS)
    kuleshov = compose("kuleshov", Resources(tmp_path, vectors=tmp_path / "vectors.txt"))
    assert kuleshov.aiming(Untargeted()).goal == Unsure(score="margin", bound=0.7)
    assert kuleshov.aiming(Targeted(target=0)).goal == Targeted(target=0)
    plain = build(
        RecipeSettings(recipe="kuleshov", fluency=0),
        Resources(tmp_path, vectors=tmp_path / "vectors.txt"),
    )
    assert plain.goal == make_goal() == Untargeted()


def test_thoughts_as_the_reference_has_them() -> None:
    document = Document.of("a Good film")
    # "Good" has no vector there: the mean of the original is that of "film".
    group = Group(document, document, document.replace_by(1, ["movie", "fine", "Fine"]))
    constraint = ThoughtVectors(small_vectors(), 0.2, compat="textattack")
    assert constraint.keep([group]) == [[True, False, True]]
    document = Document.of("good film")
    group = Group(document, document, document.replace_by(0, ["great", "bad"]))
    # The distance of the means is 0.187 and 1.001; its square is compared.
    assert ThoughtVectors(small_vectors(), 0.1, compat="textattack").keep([group]) == [
        [True, False]
    ]
    assert ThoughtVectors(small_vectors(), 0.1).keep([group]) == [[False, False]]
    nothing = Document.of("the end")
    group = Group(nothing, nothing, nothing.replace_by(0, ["this"]))
    assert constraint.keep([group]) == [[False]]  # NaN is near to nothing


def test_the_keys_of_the_reference() -> None:
    def replaced(word: str, layout: Any) -> list[str]:
        keys = NeighbourKey(layout=layout, one=False, keep_first=True, keep_last=True)
        return list(keys.replacements(word, Random(0)))

    assert replaced("xPx", "textattack") == ["xOx", "xLx"]
    assert replaced("xdx", "textattack") == [f"x{key}x" for key in "werfcxs"]
    assert set(replaced("xdx", "qwerty")) != set(replaced("xdx", "textattack"))
