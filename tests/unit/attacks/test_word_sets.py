"""The set of a recipe has all that the recipe proposes."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from attacks.composition import Attack, Job
from attacks.document import Document
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, recipe_names
from attacks.resources.catalogue import Resources
from attacks.set_names import check_names, title
from attacks.word_sets import find_sets, find_threat, recipe_set
from certify.threats import Substitutions
from tests.unit.attacks.lexicon import write_resources
from text import Vocabulary, WordSettings, WordTokenizer

FRONT = WordSettings(split="joined", front_end="spelling")
LISTABLE = ("pwws", "textfooler", "textbugger", "deepwordbug", "pruthi")
TEXTS = (
    "The film was good, well-made and didn't stop.",
    "A big MOVIE about Hollywood; they went 12 times to the U.S.",
    "good user@host film's end_of go",
)


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    neighbours = {"good": ["fine", "great", "top-notch"], "film": ["movie"], "big": ["large"]}
    return Resources(write_resources(tmp_path, neighbours))


def proposed(attack: Attack, text: str, draw: int) -> Sequence[str]:
    """All texts that the transformation makes of a text, at the words that may change."""
    document = Document.of(text)
    indices = set(range(len(document)))
    for condition in attack.pre_constraints:
        indices &= set(condition.allowed(document, columns=("text",)))
    job = Job(document, document, sorted(indices), Random(draw), 0)
    (candidates,) = attack.transformation.propose([job])
    return [candidate.columns[0] for candidate in candidates]


@pytest.mark.parametrize("recipe", LISTABLE)
def test_a_set_has_what_its_recipe_proposes(recipe: str, resources: Resources) -> None:
    settings = RecipeSettings(
        recipe=recipe, similarity=0 if recipe in ("textfooler", "textbugger") else None
    )
    attack = build(settings, resources)
    threat = Substitutions(words=FRONT, sets=(recipe_set(attack, FRONT),), k=1)
    count = 0
    for text in TEXTS:
        for draw in range(20):
            for changed in proposed(attack, text, draw):
                assert threat.contains(text, changed), (text, changed)
                count += threat.split(text) != threat.split(changed)
    assert count > 20


@pytest.mark.parametrize("recipe", LISTABLE)
def test_the_ids_of_a_proposal_are_in_the_reach(recipe: str, resources: Resources) -> None:
    words = ["the", "film", "was", "good", "go", "movie", "gd", "fine", "big", "times"]
    tokenizer = WordTokenizer(Vocabulary(dict.fromkeys(words, 1)), words=FRONT)
    threat = find_sets(recipe, FRONT, resources)
    attack = build(
        RecipeSettings(
            recipe=recipe, similarity=0 if recipe in ("textfooler", "textbugger") else None
        ),
        resources,
    )
    changes = 0
    for text in TEXTS:
        own = threat.split(text)
        reach = threat.reach(own, tokenizer)
        for draw in range(20):
            for changed in proposed(attack, text, draw):
                new = threat.split(changed)
                place = next((i for i, w in enumerate(own) if i >= len(new) or new[i] != w), None)
                if place is None:
                    continue
                size = 1 + len(new) - len(own)
                ids = [*tokenizer.ids(new[place : place + size]), -1][:2]
                rows = reach.ids[reach.starts[place] : reach.starts[place + 1]].tolist()
                assert ids in rows, (text, changed)
                changes += ids != rows[0]
    assert changes > 10


def test_a_witness_is_in_the_set(resources: Resources) -> None:
    tokenizer = WordTokenizer(
        Vocabulary(dict.fromkeys(["film", "movie", "good", "go", "od"], 1)), words=FRONT
    )
    threat = find_sets("textbugger,pwws,typos-splits", FRONT, resources)
    for word in ("film", "good", "the"):
        ids, _ = threat.reach([word], tokenizer)
        for row in ids.tolist():
            pair = tuple(i for i in row if i >= 0)
            text = threat.witness(word, pair, tokenizer)
            assert text is not None, (word, pair)
            assert tuple(tokenizer.ids(text.split(" "))) == pair
            assert threat.contains(word, text)


def test_stop_words_stay_where_the_recipe_keeps_them(resources: Resources) -> None:
    recipe = find_sets("deepwordbug", FRONT, resources)
    typos = find_sets("typos", FRONT, resources)
    assert typos.contains("the film", "teh film")
    assert not recipe.contains("the film", "teh film")
    assert recipe.contains("the film", "the flim")


def test_constraints_on_single_words_narrow_the_set(tmp_path: Path) -> None:
    folder = write_resources(tmp_path, {})
    vectors = folder / "vectors.txt"
    rows = {"good": (1.0, 0.0), "fine": (0.9, 0.3), "bad": (0.1, 1.0), "film": (0.0, -1.0)}
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in rows.items()]
    vectors.write_text("\n".join(lines) + "\n")
    resources = Resources(folder, vectors=vectors)
    threat = find_sets("textfooler", FRONT, resources)
    cosine = np.dot(rows["good"], rows["bad"]) / np.linalg.norm(rows["bad"])
    assert cosine < 0.5
    assert threat.contains("good", "fine")
    assert not threat.contains("good", "bad")
    assert find_sets("neighbours", FRONT, resources).contains("good", "bad")
    assert not find_sets("neighbours:1", FRONT, resources).contains("good", "bad")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checklist", "depends on more than the word"),
        ("iga", "may change a word twice"),
        ("nosuch", "got perturbation set 'nosuch', expected recipes"),
        ("pwws,", "got perturbation set '', expected recipes"),
        ("neighbours:0", "got perturbation set 'neighbours:0'"),
    ],
)
def test_sets_that_cannot_be_listed_are_refused(
    name: str, message: str, resources: Resources
) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        find_sets(name, FRONT, resources)


def test_every_recipe_has_a_set_or_is_refused(resources: Resources) -> None:
    listable = []
    for name in recipe_names():
        check_names(name)
        try:
            find_sets(name, FRONT, resources)
        except (ValueError, OSError):
            continue
        listable.append(name)
    assert set(LISTABLE) <= set(listable)


def test_a_file_of_lists_is_a_set(tmp_path: Path, resources: Resources) -> None:
    path = tmp_path / "lists.json"
    path.write_text('{"film": ["movie"], "good": ["bad"]}')
    threat = find_threat(f"{path},typos", lists=None, k=2, words=FRONT, resources=resources)
    assert threat.title == title(f"{path}, typos") == "lists+typos"
    assert threat.contains("a good film", "a bad movie")
    assert not threat.at(1).contains("a good film", "a bad movie")
    with pytest.raises(ValueError, match="or their file as a set"):
        find_threat("typos", lists=str(path), k=2, words=FRONT, resources=resources)
