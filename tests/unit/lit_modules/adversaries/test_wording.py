"""The words that an attack may put into texts."""

from pathlib import Path

import pytest

from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from lit_modules import AdversarialTraining, TextClassifier
from lit_modules.adversaries import EpochTextAdversary, TextAdversary
from lit_modules.adversaries.wording import replacements
from tests.unit.lit_modules.adversaries.films import made
from text import Text, WordTokenizer

TEXTS: list[Text] = ["A good film", ("bad plot", "an unheard-of thing")]


def test_of_neighbours(folder: Path) -> None:
    attack = build(RecipeSettings(recipe="textfooler"), Resources(folder))
    assert replacements(attack, TEXTS) == "dull film fine movie plot solid story".split()


def test_of_characters_there_are_none(folder: Path) -> None:
    assert replacements(build(RecipeSettings(recipe="deepwordbug"), Resources(folder)), TEXTS) == []


@pytest.mark.parametrize("cls", [TextAdversary, EpochTextAdversary])
def test_the_vocabulary_knows_them_if_it_is_told_to(folder: Path, cls: type[TextAdversary]) -> None:
    known = []
    for extend in (False, True):
        module = AdversarialTraining(
            classifier=TextClassifier(),
            adversary=made(
                cls, recipe="textfooler", resources=str(folder), extend_vocabulary=extend
            ),
        )
        tokenizer = module.build_tokenizer(iter(TEXTS))
        assert isinstance(tokenizer, WordTokenizer)
        known.append(set(tokenizer.vocabulary.get_itos()))
    assert known[1] - known[0] == {"dull", "fine", "movie", "solid", "story"}
