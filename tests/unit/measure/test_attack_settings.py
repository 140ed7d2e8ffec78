import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from app.commands.resources import SOURCES
from attacks import recipes
from attacks.composition import Attack
from attacks.constraints.preconstraints import MaxModificationRate, RepeatModification, StopWords
from attacks.goals import Targeted, Untargeted
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import SIX, find_recipe
from attacks.resources.catalogue import SENTENCE_ENCODER, Resources
from attacks.search import Beam, Greedy
from attacks.transformations import Composite, SwapCharacters
from measure.attack_settings import AttackPlan, AttackSettings, applied, plan
from measure.compose import compose
from tests.unit.attacks.transformations.test_expected_words import preferring, wordpiece

Composed = Callable[..., AttackPlan]
ROOT = Path(__file__).parents[3]
NAMES = ["negative", "positive", "7"]
SWAP = {
    "name": "swap",
    "transformation": {"class_path": "SwapCharacters"},
    "search": {"class_path": "attacks.search.Greedy", "init_args": {"ranking": "unk"}},
}


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing but the program is installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NLTK_DATA", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "python"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_samples": 0}, "got num_samples=0, expected a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"show": -1}, "show=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"in_flight": 0}, "in_flight=0"),
        ({"query_budget": 0}, "query_budget=0"),
        ({"budget_per_word": -1.0}, "budget_per_word=-1"),
        ({"tag": "../x"}, "got tag '../x', expected letters"),
        ({"tag": ""}, "got tag ''"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttackSettings(**settings)


@pytest.mark.parametrize(
    ("goal", "target"), [("untargeted", None), ("positive", 1), ("0", 0), (1, 1), ("7", 2), (7, 2)]
)
def test_goal(goal: str | int, target: int | None) -> None:
    assert AttackSettings(goal=goal).target(NAMES) == target


@pytest.mark.parametrize("goal", ["happy", "3", "-1", "", 99])
def test_no_such_class(goal: str | int) -> None:
    with pytest.raises(
        ValueError, match=r"expected evade, force, `untargeted` or one of the classes: 0 \(neg"
    ):
        AttackSettings(goal=goal).target(NAMES)


def test_all_stands_for_six_that_there_are() -> None:
    assert set(SIX) <= set(recipes.recipe_names())
    assert len(SIX) == 6


def test_every_recipe_is_named_in_the_help() -> None:
    shown = "".join(cls.__doc__ or "" for cls in AttackSettings.__mro__)
    assert all(name in shown for name in recipes.recipe_names())
    documented = {line.split(":")[0].strip() for line in shown.splitlines()}
    assert {field.name for field in fields(AttackSettings)} <= documented


@pytest.mark.usefixtures("bare")
def test_recipes() -> None:
    settings = AttackSettings(recipe="deepwordbug, deepwordbug", tag="x.1")
    (one,) = plan(settings)
    assert one.name == "deepwordbug-x.1"
    assert one.attack.name == "deepwordbug"
    assert one.attack.goal == Untargeted()
    reference = AttackSettings(recipe="deepwordbug", compat="textattack")
    (one,) = plan(reference)
    assert one.attack.goal == Untargeted(score="probability")
    assert one.attack.compat == "textattack"


def test_unknown_recipes_are_told_which_there_are() -> None:
    for recipe in ("textfoler", "", "pwws,", "all.", "/etc/passwd"):
        with pytest.raises(ValueError, match=r"expected all, worst, one of a2t, .*textfooler"):
            plan(AttackSettings(recipe=recipe))
    with pytest.raises(ValueError, match=r"of your own: perhaps textfooler$"):
        plan(AttackSettings(recipe="textfoler"))


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    # `paraphrase` asks for its file first.
    "name",
    [name for name in recipes.recipe_names() if find_recipe(name).needs and name != "paraphrase"],
)
def test_missing_resources_name_one_command_for_all_of_them(name: str) -> None:
    with pytest.raises(OSError, match="`python -m steadfast resources") as caught:
        plan(AttackSettings(recipe=name))
    said = str(caught.value)
    assert f"`python -m steadfast resources {' '.join(find_recipe(name).needs)}`" in said
    assert set(find_recipe(name).needs) <= set(SOURCES)
    assert "\n" not in said


@pytest.mark.usefixtures("bare")
def test_no_sentence_encoder_is_asked_for_where_none_is_used() -> None:
    with pytest.raises(
        OSError, match="all that textfooler needs: `python -m steadfast resources neigh"
    ):
        plan(AttackSettings(recipe="textfooler", similarity=0))
    with pytest.raises(
        OSError, match="`python -m steadfast resources neighbours` gets it"
    ) as caught:
        plan(AttackSettings(recipe="textbugger", similarity=0))
    assert "sentence-encoder" not in str(caught.value)


class Asked(Resources):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def _give(self, name: str, found: Any) -> Any:
        self.asked.add(name)
        return found

    def neighbours(self) -> Any:
        return self._give("neighbours", SimpleNamespace(vectors=None))

    def wordnet(self) -> Any:
        return self._give("wordnet", None)

    def tagger(self) -> Any:
        return self._give("tagger", SimpleNamespace(universal=["NOUN", "VERB"]))

    def inflected(self) -> Any:
        return self._give("wordnet", SimpleNamespace())

    def sentence_encoder(self) -> Any:
        return self._give("sentence-encoder", SimpleNamespace(name=SENTENCE_ENCODER))

    def masked_lm(self) -> Any:
        return self._give("masked-lm", (preferring("plot"), wordpiece()))


# Two ask for a file of the user first.
@pytest.mark.parametrize("name", sorted({*recipes.recipe_names()} - {"translate", "paraphrase"}))
def test_a_recipe_asks_for_what_it_is_said_to_need(name: str) -> None:
    resources = Asked()
    recipes.build(RecipeSettings(recipe=name), resources)
    assert resources.asked == set(find_recipe(name).needs)


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("deepwordbug", {"similarity": 0.9}, "got similarity 0.9 for deepwordbug, expected it for"),
        ("deepwordbug,pwws", {"candidates": 5}, "for deepwordbug, pwws, expected it for one of a"),
        ("pwws", {"vectors": "."}, "got vectors . for pwws, expected it for one of a2t, alz"),
        ("deepwordbug", {"masked_lm": "x"}, "expected it for one of a2t-mlm, alz"),
        ("a.yaml", {"similarity": 0}, "an attack of your own has it in its file"),
        ("a.yaml", {"columns": ["text"]}, "an attack of your own has it in its file"),
    ],
)
def test_a_setting_that_no_attack_has(recipe: str, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(AttackSettings(recipe=recipe, **settings))


def test_a_setting_applies_to_those_attacks_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "attacks.resources.catalogue.Resources.of", lambda *args, **named: NoResources()
    )
    path = tmp_path / "swap.yaml"
    path.write_text(yaml.safe_dump(SWAP))
    recipe = f"textfooler,deepwordbug,{path}"
    settings = AttackSettings(recipe=recipe, similarity=0, columns=["text"], sentence_encoder="e")
    found = {one.name: dict(one.options) for one in plan(settings)}
    assert found == {
        "textfooler": {"similarity": 0, "columns": ["text"], "sentence_encoder": "e"},
        "deepwordbug": {"columns": ["text"]},
        "swap": {"sentence_encoder": "e"},
    }
    assert applied(settings, plan(settings)) == [
        "similarity 0 applies to textfooler; deepwordbug, swap without it",
        "columns ['text'] applies to textfooler, deepwordbug; swap without it",
        "sentence_encoder e applies to textfooler, swap; deepwordbug without it",
    ]
    # Records of an attack without the setting stay what they are; those of one with it do not.
    before = {one.name: one.subject for one in plan(AttackSettings(recipe=recipe))}
    after = {one.name: one.subject for one in plan(AttackSettings(recipe=recipe, similarity=0))}
    assert before["deepwordbug"] == after["deepwordbug"]
    assert before["swap"] == after["swap"]
    assert before["textfooler"].keys() == after["textfooler"].keys()
    assert before["textfooler"] != after["textfooler"]


def test_about_has_what_the_outcome_depends_on() -> None:
    before = AttackSettings().about()
    assert json.loads(json.dumps(before)) == before
    speed = {
        "num_samples",
        "resources",
        "in_flight",
        "batch_size",
        "tag",
        "show",
        "html",
        "csv",
        "validity",
        "shard",
    }
    other: dict[str, Any] = {
        "choice": "first",
        "split": "validation",
        "query_budget": 5,
        "budget_per_word": 2.0,
        "score": "probability",
        "compat": "textattack",
        "goal": "1",
        "delta": 0.3,
        "seed": 1,
    }
    some: dict[str, Any] = {
        "vectors": "v.txt",
        "sentence_encoder": "e",
        "masked_lm": "m",
        "similarity": 0.5,
        "fluency": 2.0,
        "language": "german",
        "word_similarity": 0.5,
        "candidates": 5,
        "columns": ["text"],
        "pool": "words.txt",
        "added_words": 5,
        "side": "both",
        "selection": "ranked",
        "variants": ["tags"],
        "translations": "pairs.tsv",
        "paraphrases": "paraphrases.jsonl",
        "edits": 1,
        "positions": "all",
        "ranking": "unk",
        "surrogate": "scores",
        "shortlist": 4,
        "p": 0.2,
        "causal_lm": "g",
    }
    assert AttackSettings(**some).options() == some
    assert AttackSettings(**some).about() == before
    detector = {"positive", "threshold"}
    known = {*other, *some, *speed, *detector, "recipe"}
    # Of the set of texts the evaluator has the digest, which it knows with the model's words.
    assert {field.name for field in fields(AttackSettings)} == {*known, "threat"}
    for name, value in other.items():
        assert AttackSettings(**{name: value}).about() != before, name
    evade = AttackSettings(goal="evade", positive="spam").about()
    assert AttackSettings(goal="evade", positive="spam", threshold=0.9).about() != evade
    assert AttackSettings(goal="evade", positive="ham").about() != evade


def test_a_regression_needs_a_distance() -> None:
    with pytest.raises(ValueError, match=r"got no --attack\.delta for a model of regression"):
        AttackSettings().aim((), None, "regression")


# Compositions


@pytest.fixture
def composed(tmp_path: Path) -> Composed:
    """What becomes of a file."""

    def build(spec: dict[str, Any], **settings: Any) -> AttackPlan:
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(spec))
        (one,) = plan(AttackSettings(recipe=str(path), **settings))
        return one

    return build


def test_composition(composed: Composed) -> None:
    one = composed(SWAP)
    assert one.name == "swap"
    assert isinstance(one.attack.transformation, SwapCharacters)
    assert one.attack.search == Greedy(ranking="unk")
    assert one.attack.goal == Untargeted()
    assert {key: value for key, value in one.subject.items() if value is not None} == {
        "recipe": SWAP
    }
    assert not one.has_goal


def test_composition_with_a_goal_of_its_own(composed: Composed) -> None:
    goal = {"class_path": "Targeted", "init_args": {"target": 1}}
    one = composed({**SWAP, "goal": goal})
    assert one.attack.goal == Targeted(target=1)
    assert one.has_goal


@pytest.mark.parametrize("settings", [{"goal": "positive"}, {"goal": 0}, {"score": "margin"}])
def test_one_goal_is_enough(settings: dict[str, Any], composed: Composed) -> None:
    goal = {"class_path": "Targeted", "init_args": {"target": 1}}
    with pytest.raises(ValueError, match=r"mine\.yaml, which has a goal of its own, expected one"):
        composed({**SWAP, "goal": goal}, **settings)
    assert composed(SWAP, **settings).attack.name == "swap"


def test_composition_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({key: SWAP[key] for key in ("transformation", "search")}))
    (one,) = plan(AttackSettings(recipe=str(path), tag="b"))
    assert one.name == "mine-b"
    assert one.attack.name == "mine"


class NoResources(Resources):
    """Stands in for data that are not at hand."""

    def stop_words(self, name: str = "english") -> frozenset[str]:
        return frozenset({name})

    def neighbours(self) -> Any:
        return SimpleNamespace(vectors=None)

    def tagger(self) -> Any:
        return SimpleNamespace(universal=["NOUN", "VERB"])

    def sentence_encoder(self) -> Any:
        return SimpleNamespace(name=SENTENCE_ENCODER)


def shipped(name: str) -> Attack:
    spec = yaml.safe_load((ROOT / "configs/attack" / name).read_text())
    return compose(spec, NoResources(), compat="textattack", goal=Untargeted())


def test_the_example_that_is_shipped() -> None:
    attack = shipped("custom.yaml")
    assert attack.name == "beam"
    assert isinstance(attack.transformation, Composite)
    assert attack.search == Beam(width=4, depth=3)
    kinds = [type(part) for part in attack.pre_constraints]
    assert kinds == [RepeatModification, StopWords, MaxModificationRate]
    stop_words = attack.pre_constraints[1]
    assert isinstance(stop_words, StopWords)
    assert stop_words.words == {"english"}
    assert attack.compat == "textattack"


@pytest.mark.parametrize("path", sorted((ROOT / "configs/attack").iterdir()), ids=lambda p: p.name)
def test_everything_that_is_shipped(path: Path) -> None:
    assert shipped(path.name).constraints


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../x"}, "expected name"),
        ({"name": ""}, "expected name"),
        ({"serch": {}}, "serch"),
        ({"search": {"class_path": "Greedi"}}, "got class_path 'Greedi', which is not in"),
        ({"search": {"class_path": "attacks.nowhere.Greedy"}}, "not in attacks.nowhere"),
        (
            {"search": {"class_path": "Greedy", "init_args": {"rank": 1}}},
            "wrong init_args of Greedy: .*rank",
        ),
        (
            {"search": {"class_path": "Greedy", "init_args": {"ranking": "best"}}},
            "wrong init_args of Greedy: .*ranking",
        ),
        ({"search": {"class_path": "Greedy", "args": {}}}, "got args next to class_path"),
        ({"search": {"class_path": "SwapCharacters"}}, "SwapCharacters as search, expected steps"),
        ({"search": [{"class_path": "Greedy"}]}, "expected one part"),
        (
            {"constraints": {"class_path": "EditDistance"}},
            "EditDistance: .*maximum|a list of parts",
        ),
        ({"constraints": [{"class_path": "Greedy"}]}, "Greedy as constraints, expected keep, cost"),
        ({"search": "Greedy"}, "got str as search"),
    ],
)
def test_wrong_compositions(change: dict[str, Any], message: str, composed: Composed) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        composed({**SWAP, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["os.system", "subprocess.Popen", "builtins.eval", "pathlib.Path"])
def test_a_file_from_elsewhere_calls_nothing(path: str, composed: Composed) -> None:
    with pytest.raises(ValueError, match="expected a class with propose or steps"):
        composed({**SWAP, "search": {"class_path": path, "init_args": {"command": "touch x"}}})


def test_a_composition_without_search(composed: Composed) -> None:
    with pytest.raises(ValueError, match="expected name, transformation, search"):
        composed({"name": "a", "transformation": SWAP["transformation"]})


@pytest.mark.parametrize(
    ("content", "message"),
    [("a: [", "which is not valid YAML"), ("[1]", "expected name"), ("", "expected name")],
)
def test_files_that_are_no_attacks(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        plan(AttackSettings(recipe=str(path)))
    with pytest.raises(ValueError, match=r"not found, expected one, or .*, (as|perhaps) attack/c"):
        plan(AttackSettings(recipe=str(tmp_path / "b.yaml")))
