"""The recipes: what they are made of, and that they do the same in any company."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from attacks.compat import CompatName
from attacks.composition import Attack
from attacks.constraints import EditDistance, PartOfSpeech, WordSimilarity
from attacks.constraints.preconstraints import Columns, StopWords
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.engine import Engine, Limits
from attacks.goals import Untargeted
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe, recipe_names
from attacks.resources.catalogue import Resources
from attacks.search import Greedy, RandomSearch
from attacks.transformations import Composite, EmbeddingSwap, WordNetSwap
from tests.unit.attacks.lexicon import Alike, vector_lines, write_resources
from tests.unit.attacks.toys import BagVictim
from text import Text

WORDS = ("textfooler", "textbugger", "deepwordbug", "pwws", "random")
LISTS = {
    "good": ["fine", "okay", "solid"],
    "fine": ["okay", "good"],
    "film": ["movie", "picture"],
    "plot": ["story", "dull", "bad"],
    "movie": ["film"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_resources(tmp_path / "resources", LISTS)


@pytest.fixture
def resources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Resources:
    monkeypatch.setattr(Resources, "sentence_encoder", lambda self: Alike())
    return Resources(folder)


def test_names() -> None:
    six = {"textfooler", "textbugger", "bae", "deepwordbug", "pwws", "a2t"}
    assert six | {"a2t-mlm", "random"} <= set(recipe_names())


# What they are made of


def test_textfooler(folder: Path, resources: Resources, tmp_path: Path) -> None:
    vectors = tmp_path / "v.txt"
    vectors.write_text(vector_lines())
    attack = build(
        RecipeSettings(recipe="textfooler", compat="textattack"), Resources(folder, vectors=vectors)
    )
    assert isinstance(attack.transformation, EmbeddingSwap)
    assert attack.transformation.k == 50
    assert attack.search == Greedy(ranking="delete")
    similar, speech, sentence = attack.constraints
    assert isinstance(similar, WordSimilarity)
    assert similar.minimum == 0.5
    assert similar.vectors is not None
    assert isinstance(speech, PartOfSpeech)
    assert speech.allow_verb_noun_swap
    assert isinstance(sentence, SentenceSimilarity)
    assert sentence.window == 15
    assert sentence.against == "current"
    assert sentence.skip_short
    stop_words = attack.pre_constraints[1]
    assert isinstance(stop_words, StopWords)
    assert len(frozenset(stop_words.words)) == 266
    assert not stop_words.ignore_case
    assert not attack.white_box
    assert build(RecipeSettings(recipe="textfooler"), resources).compat == "none"


def test_textbugger(resources: Resources) -> None:
    attack = build(RecipeSettings(recipe="textbugger"), resources)
    assert isinstance(attack.transformation, Composite)
    assert [type(one).__name__ for one in attack.transformation.transformations] == [
        *("InsertSpace", "DeleteCharacter", "SwapCharacters", "Homoglyphs", "EmbeddingSwap")
    ]
    assert attack.search == Greedy(ranking="delete")
    (sentence,) = attack.constraints
    assert isinstance(sentence, SentenceSimilarity)
    assert sentence.window is None
    assert sentence.against == "original"


def test_deepwordbug(resources: Resources) -> None:
    attack = build(RecipeSettings(recipe="deepwordbug"), resources)
    assert attack.search == Greedy(ranking="unk")
    assert attack.constraints == [EditDistance(30)]


def test_pwws(resources: Resources) -> None:
    attack = build(RecipeSettings(recipe="pwws"), resources)
    assert isinstance(attack.transformation, WordNetSwap)
    assert attack.search == Greedy(ranking="weighted-saliency")
    assert attack.constraints == ()


def test_random(resources: Resources) -> None:
    assert build(RecipeSettings(recipe="random"), resources).search == RandomSearch(tries=10)


# Settings


def test_settings(resources: Resources) -> None:
    goal = Untargeted(score="probability")
    attack = build(
        RecipeSettings(
            recipe="textfooler",
            candidates=7,
            word_similarity=0.9,
            similarity=0.5,
            columns=["premise"],
        ),
        resources,
        goal=goal,
    )
    assert attack.goal is goal
    assert isinstance(attack.transformation, EmbeddingSwap)
    assert attack.transformation.k == 7
    assert isinstance(attack.constraints[0], WordSimilarity)
    assert attack.constraints[0].minimum == 0.9
    assert isinstance(attack.constraints[2], SentenceSimilarity)
    assert attack.constraints[2].minimum == 0.5
    assert attack.pre_constraints[-1] == Columns(["premise"])


def test_without_a_sentence_encoder(folder: Path) -> None:
    for name in ("textfooler", "textbugger"):
        attack = build(RecipeSettings(recipe=name, similarity=0.0), Resources(folder))
        assert not any(isinstance(one, SentenceSimilarity) for one in attack.constraints)


def test_what_a_recipe_does_not_have(resources: Resources) -> None:
    with pytest.raises(
        ValueError, match=r"got similarity for pwws, expected only what it has: ranking, surr"
    ):
        build(RecipeSettings(recipe="pwws", similarity=0.5), resources)
    with pytest.raises(ValueError, match="got recipe 'textfoolr', expected one of a2t"):
        build(RecipeSettings(recipe="textfoolr"), resources)


# What they do

TEXTS: list[Text] = [
    "a good film",
    "The plot was GOOD, the movie fine!",
    "Good good good -- fine film",
    "fine",
    "it's a well-made FILM with a good plot; naïve, größer, 映画 good",
    "e\u0301toile \U0001f600 good \u202egood\u202c film",
    "the a was",
    "",
    "!!! ...",
    "good " * 30,
]


def attacked(
    attack: Attack,
    texts: Sequence[Text],
    *,
    order: Sequence[int] | None = None,
    in_flight: int = 64,
    columns: Sequence[str] = ("text",),
) -> dict[int, AttackRecord]:
    engine = Engine(
        attack,
        BagVictim(bias=-0.4),
        limits=Limits(query_budget=400, in_flight=in_flight),
        seed=3,
        columns=columns,
    )
    samples = [Sample(sample_id=i, text=text, label=1) for i, text in enumerate(texts)]
    chosen = samples if order is None else [samples[i] for i in order]
    return {record.sample_id: record for record in engine.run(chosen)}


def verdicts(records: dict[int, AttackRecord]) -> dict[int, tuple[object, ...]]:
    return {
        i: (one.outcome, one.adversarial, one.queries, one.unique_queries, one.adversarial_score)
        for i, one in sorted(records.items())
    }


@pytest.mark.parametrize(
    ("name", "compat"),
    [
        *((name, "none") for name in WORDS),
        *((name, "textattack") for name in WORDS if find_recipe(name).refused is None),
    ],
)
def test_the_same_in_any_company(resources: Resources, name: str, compat: CompatName) -> None:
    together = verdicts(
        attacked(build(RecipeSettings(recipe=name, compat=compat), resources), TEXTS)
    )
    assert {outcome for outcome, *_ in together.values()} >= {"succeeded", "skipped"}
    order = list(range(len(TEXTS)))
    random.Random(1).shuffle(order)
    attack = build(RecipeSettings(recipe=name, compat=compat), resources)
    assert verdicts(attacked(attack, TEXTS, order=order, in_flight=1)) == together
    assert verdicts(attacked(attack, TEXTS, order=order[::-1], in_flight=3)) == together
    alone = attacked(attack, TEXTS, order=[1])
    assert verdicts(alone)[1] == together[1]


@pytest.mark.parametrize("name", WORDS)
def test_successes_are_misclassified_and_keep_stop_words(resources: Resources, name: str) -> None:
    victim = BagVictim(bias=-0.4)
    for record in attacked(build(RecipeSettings(recipe=name), resources), TEXTS).values():
        if record.outcome == "succeeded":
            assert record.adversarial is not None
            assert victim.logits([record.adversarial]).argmax() == 0
            assert record.words_changed > 0
    changed = attacked(build(RecipeSettings(recipe=name), resources), ["The good THE film the"])[
        0
    ].adversarial
    assert isinstance(changed, str)
    assert [changed.split()[i] for i in (0, 2)] == ["The", "THE"] or name == "textbugger"
    assert changed.endswith("the")


@pytest.mark.parametrize("name", WORDS)
def test_pairs(resources: Resources, name: str) -> None:
    pairs: list[Text] = [("good film", "a good good film"), ("", "good film"), ("good", "")]
    attack = build(RecipeSettings(recipe=name), resources)
    records = attacked(attack, pairs, columns=("premise", "hypothesis"))
    for i, record in records.items():
        assert record.outcome != "skipped"
        assert record.adversarial is not None
        assert record.adversarial[0] == pairs[i][0]
    assert records[2].adversarial == ("good", "")
    equals: Text = ("good plot", "good plot")
    both = attacked(attack, [equals], columns=("question1", "question2"))[0].adversarial
    assert both is not None
    assert both[0] != equals[0]


def test_no_words_at_all(folder: Path) -> None:
    (folder / "counterfitted_neighbors.json").write_text("{}")
    resources = Resources(folder)
    for attack in (
        build(RecipeSettings(recipe="textfooler", similarity=0.0), resources),
        build(RecipeSettings(recipe="random"), resources),
    ):
        found = attacked(attack, ["good film"])[0]
        assert (found.outcome, found.adversarial) == ("failed", "good film")
    assert (
        attacked(build(RecipeSettings(recipe="deepwordbug"), resources), ["the good film"])[
            0
        ].outcome
        == "succeeded"
    )


def test_words_in_their_case(resources: Resources) -> None:
    found = attacked(build(RecipeSettings(recipe="pwws"), resources), ["Good GOOD film"])[0]
    assert found.adversarial in {"Well WELL film", "Unspoiled UNSPOILED film"}
