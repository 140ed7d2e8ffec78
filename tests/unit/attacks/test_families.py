"""The recipes by family: they do what their paper says, and the same in any company."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attacks.composition import Job
from attacks.constraints import WordsChanged
from attacks.constraints.fluency import Fluency
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.document import Document
from attacks.engine import Engine, Limits
from attacks.goals import Targeted, Unchanged, Unsure
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import OPTIONAL, build, find_recipe, recipe_names
from attacks.resources.catalogue import Resources
from attacks.search import Beam
from attacks.strategies import Genetic, RankedActions, StagedGreedy
from attacks.transformations import Actions, Composite
from tests.unit.attacks.lexicon import Alike, write_resources
from tests.unit.attacks.test_strategies import GradientVictim
from tests.unit.attacks.transformations.test_expected_words import preferring, wordpiece
from text import Text
from text.stop_words import TEXTFOOLER

NEW = sorted(
    set(recipe_names())
    - {"textfooler", "textbugger", "bae", "deepwordbug", "pwws", "a2t", "a2t-mlm", "random"}
    # Its texts are those of a certificate.
    - {"witness"}
    # It needs the tokens of a network: test_gbda.
    - {"gbda"}
)
LISTS = {
    "good": ["fine", "okay", "solid"],
    "fine": ["okay", "good"],
    "film": ["movie", "picture"],
    "plot": ["story", "dull", "bad"],
}
TEXTS: list[Text] = [
    "a good film",
    "The plot was GOOD, the movie fine! It is not bad in 12 cities of France",
    "fine",
    "Robert isn't a good film, Paris is good",
    "the a was",
    "",
    "good film " * 12,
    "good bad plot",
]


PARAPHRASED = (
    *(text.strip() for text in TEXTS if isinstance(text, str) and text),
    *("good film with a plot", "bad plot", "The plot was GOOD", "a bad film", "a good good plot"),
)
PARAPHRASES = [
    {"about": {"kind": "paraphrases"}},
    *({"text": text, "paraphrases": [text.replace("good", "weak")]} for text in PARAPHRASED),
]


@pytest.fixture
def resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resources:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Resources, "sentence_encoder", lambda self: Alike())
    model = preferring("bad", "plot", "dull", "film", "##ing")
    monkeypatch.setattr(Resources, "masked_lm", lambda self: (model, wordpiece()))
    return Resources(write_resources(tmp_path / "resources", LISTS))


def small(name: str, resources: Resources, **settings: Any) -> Any:
    """The recipe with a population that takes no time."""
    if name == "translate":
        assert resources.folder is not None
        settings["translations"] = str(resources.folder / "pairs.tsv")
        Path(settings["translations"]).write_text("a good film\tun bon film\n")
    if name == "paraphrase":
        assert resources.folder is not None
        path = resources.folder / "paraphrases.jsonl"
        if not path.exists():
            path.write_text("".join(json.dumps(line) + "\n" for line in PARAPHRASES))
        settings["paraphrases"] = str(path)
    attack = build(RecipeSettings(recipe=name, **settings), resources)
    attack = attack.learn(lambda: [("a good film", 1), ("a bad dull plot", 0)])
    known = {"population": 6, "generations": 3, "tries": 30, "at_once": 6}
    search: Any = attack.search
    fields = getattr(search, "__dataclass_fields__", {})
    changes = {key: value for key, value in known.items() if key in fields}
    return replace(attack, search=replace(search, **changes)) if changes else attack


def attacked(
    attack: Any, texts: Sequence[Text], *, order: Sequence[int] | None = None, in_flight: int = 64
) -> dict[int, AttackRecord]:
    engine = Engine(
        attack,
        GradientVictim(bias=-0.4),
        limits=Limits(query_budget=300, in_flight=in_flight),
        seed=3,
    )
    chosen = range(len(texts)) if order is None else order
    records = engine.run([Sample(sample_id=i, text=texts[i], label=1) for i in chosen])
    return {record.sample_id: record for record in records}


def verdicts(records: dict[int, AttackRecord]) -> dict[int, tuple[object, ...]]:
    return {
        i: (one.outcome, one.adversarial, one.queries, one.unique_queries)
        for i, one in sorted(records.items())
    }


@pytest.mark.parametrize(
    ("name", "compat"),
    [
        *product(NEW, ["none"]),
        *product((name for name in NEW if find_recipe(name).refused is None), ["textattack"]),
    ],
)
def test_the_same_in_any_company(resources: Resources, name: str, compat: Any) -> None:
    settings = {"compat": compat, "fluency": 0.0} if name == "kuleshov" else {"compat": compat}
    attack = small(name, resources, **settings)
    assert attack.name == name
    together = attacked(attack, TEXTS)
    order = [5, 2, 7, 0, 4, 6, 1, 3]
    other = small(name, resources, **settings)
    assert verdicts(attacked(other, TEXTS, order=order, in_flight=2)) == verdicts(together)
    for record in together.values():
        doubtful = name == "input-reduction" or isinstance(attack.goal, Unsure)
        if record.outcome == "succeeded" and not doubtful:
            assert record.adversarial_prediction == 0
            assert record.words_changed > 0
    # These find nothing in the few words of the test.
    if name not in {"morpheus", "checklist", "case"}:
        assert "succeeded" in {one.outcome for one in together.values()}


def test_recipes_declare_resources_and_settings_that_exist() -> None:
    needs = {need for name in recipe_names() for need in find_recipe(name).needs}
    assert needs == {"neighbours", "tagger", "wordnet", "masked-lm", "sentence-encoder"}
    settings = {setting for name in recipe_names() for setting in find_recipe(name).settings}
    assert settings == {*OPTIONAL}


def test_genetic_recipes(resources: Resources) -> None:
    for name, generations, language_models in (("alzantot", 20, 1), ("faster-alzantot", 40, 1)):
        attack = build(RecipeSettings(recipe=name), resources)
        assert attack.search == Genetic(population=60, generations=generations)
        assert sum(isinstance(one, Fluency) for one in attack.constraints) == language_models
        without = build(RecipeSettings(recipe=name, fluency=0), resources)
        assert not any(isinstance(one, Fluency) for one in without.constraints)
        assert WordsChanged(share=0.2) in attack.constraints
    assert build(RecipeSettings(recipe="iga"), resources).search == Genetic(
        population=60, generations=20, crossover="point", changes=5
    )


def test_fluency_belongs_to_those_that_have_it(resources: Resources) -> None:
    with pytest.raises(ValueError, match="got fluency for pwws"):
        build(RecipeSettings(recipe="pwws", fluency=2.0), resources)
    with pytest.raises(ValueError, match="fluency"):
        RecipeSettings(fluency=-1.0)


def test_bert_attack_and_clare(resources: Resources) -> None:
    for name, window in (("bert-attack", None), ("clare", 15)):
        attack = build(RecipeSettings(recipe=name), resources)
        (sentence,) = [one for one in attack.constraints if isinstance(one, SentenceSimilarity)]
        assert sentence.window == window
    found = attacked(small("clare", resources), ["good film", "a good film good"])
    assert found[0].outcome == "succeeded"


def test_substitutes_of_bert_attack_are_no_stop_words(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ("is", "the", "don", "bad", "re", "dull")
    model = preferring(*order)
    monkeypatch.setattr(Resources, "masked_lm", lambda self: (model, wordpiece()))
    document = Document.of("Good plot")
    job = Job(document, document, [0], Random(0), 1)

    def substitutes(**settings: Any) -> list[str]:
        recipe = build(RecipeSettings(recipe="bert-attack", candidates=6, **settings), resources)
        return [candidate.word for candidate in recipe.transformation.propose([job])[0]]

    # The six likeliest, without those of the list: "re" is not on it.
    assert substitutes() == ["Bad", "Re", "Dull"]
    assert substitutes(compat="textattack") == ["is", "the", "don", "bad", "re", "dull"]
    german = substitutes(language="german")
    assert german == ["Is", "The", "Don", "Bad", "Re", "Dull"]
    list_of_targets: Any = build(RecipeSettings(recipe="bert-attack"), resources).pre_constraints[1]
    assert list_of_targets.words == TEXTFOOLER


def test_clare_ranks_places_once(resources: Resources) -> None:
    attack = build(RecipeSettings(recipe="clare"), resources)
    assert attack.search == RankedActions()
    assert isinstance(attack.transformation, Actions)
    reference = build(RecipeSettings(recipe="clare", compat="textattack"), resources)
    assert reference.search == Beam(width=1)
    assert type(reference.transformation) is Composite


def test_insertions_of_bae(resources: Resources) -> None:
    inserted = attacked(small("bae-i", resources), ["good film"])[0]
    assert inserted.adversarial in {"bad good film", "good bad film"}
    assert (inserted.words_changed, inserted.outcome) == (1, "succeeded")
    either = attacked(small("bae-ri", resources, candidates=1), ["good film"])[0]
    assert either.adversarial == "bad film"
    both = build(RecipeSettings(recipe="bae-r-then-i"), resources)
    assert both.search == StagedGreedy(stages=2)
    found = attacked(small("bae-r-then-i", resources), ["good good good good film"])[0]
    assert found.outcome == "succeeded"
    assert isinstance(found.adversarial, str)


def test_a_reduction_has_its_own_goal(resources: Resources) -> None:
    attack = build(RecipeSettings(recipe="input-reduction", score="probability"), resources)
    assert attack.goal == Unchanged(score="probability")
    with pytest.raises(ValueError, match="keeps the prediction"):
        attack.aiming(Targeted(target=0))
    found = attacked(attack, ["the plot of a good film", "good"])
    assert (found[0].outcome, found[0].adversarial) == ("succeeded", "good")
    assert found[1].outcome == "failed"


def test_one_typing_error(resources: Resources) -> None:
    found = attacked(small("pruthi", resources), ["good good bad", "fine film with good end"])
    for record in found.values():
        assert record.words_changed <= 1


def test_gradients_are_asked_for(resources: Resources) -> None:
    attack = build(RecipeSettings(recipe="hotflip"), resources)
    assert attack.white_box

    class Blind:
        name = "blind"

        def logits(self, texts: Sequence[Text]) -> NDArray[np.float64]:
            return np.array([[0.0, 1.0]] * len(texts))

        def word_weights(self) -> None:
            """Only says that there are gradients."""

    with pytest.raises(TypeError, match="flip_gains"):
        list(Engine(attack, Blind()).run([Sample(sample_id=0, text="good film", label=1)]))


def test_languages(resources: Resources) -> None:
    german = build(RecipeSettings(recipe="deepwordbug", language="german"), resources)
    text = "Die \u00fcber alles sch\u00f6ne Stra\u00dfe und der gr\u00f6\u00dfte Film"
    stop = german.pre_constraints[1]
    document = Document.of(text)
    kept = [document.words[i] for i in sorted(stop.allowed(document, columns=("text",)))]
    assert kept == ["sch\u00f6ne", "Stra\u00dfe", "gr\u00f6\u00dfte", "Film"]
    chinese = build(RecipeSettings(recipe="bad-characters", language="chinese"), resources)
    assert chinese.cut is not None
    assert Document.of("\u7535\u5f71\u5f88\u597d film", cut=chinese.cut).words == [
        *"\u7535\u5f71\u5f88\u597d",
        "film",
    ]
