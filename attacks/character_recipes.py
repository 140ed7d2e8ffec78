"""Recipes that change characters."""

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.constraints.preconstraints import WordLength
from attacks.recipe_parts import pre_constraints
from attacks.recipe_settings import RecipeSettings
from attacks.resources.catalogue import Resources
from attacks.search import Beam, Greedy
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    InsertCharacter,
    InsertInvisible,
    NeighbourKey,
    Reorder,
    SwapCharacters,
    SwapTwins,
    TypeAndDelete,
)
from attacks.transformations.characters import letters_of
from attacks.transformations.keys import LAYOUTS


def pruthi(resources: Resources, settings: RecipeSettings) -> Attack:
    """Pruthi, Dhingra, Lipton, "Combating Adversarial Misspellings", 2019: one typing error.

    Paper and code insert any small letter at each place, also before the last; the reference and
    this one random letter. The code swaps in words of five letters and more, and takes those of
    three for its other errors.
    """
    inner = {"one": False, "keep_first": True, "keep_last": True}
    language = settings.language or "english"
    # The reference has a table of its own for English, with more keys than touch each other.
    own = settings.compat == "textattack" and language == "english"
    return Attack(
        name="pruthi",
        transformation=Composite(
            [
                SwapCharacters(**inner),
                DeleteCharacter(**inner),
                InsertCharacter(letters=letters_of(language), **inner),
                NeighbourKey(layout="textattack" if own else LAYOUTS[language], **inner),
            ]
        ),
        # All words are tried, and the best change taken.
        search=Beam(width=1),
        # Words of four letters and more; the paper also looks at two changed words.
        pre_constraints=[*pre_constraints(resources, settings), WordLength(4)],
        constraints=[WordsChanged(maximum=1, compat=settings.compat)],
        compat=settings.compat,
    )


def bad_characters(resources: Resources, settings: RecipeSettings) -> Attack:
    """Boucher et al., "Bad Characters: Imperceptible NLP Attacks", 2022.

    The paper looks for places and characters of the whole text by differential evolution, with 1
    to 5 changes. So does the reference, for one kind of change at a time and goals of its own.
    Here all four kinds are tried in each word, the words in the order of their importance, which
    needs fewer queries.
    """
    return Attack(
        name="bad-characters",
        transformation=Composite([InsertInvisible(), SwapTwins(), Reorder(), TypeAndDelete()]),
        search=Greedy(ranking="unk"),
        pre_constraints=pre_constraints(resources, settings),
    )


RECIPES = {"pruthi": pruthi, "bad-characters": bad_characters}
HAS: dict[str, tuple[str, ...]] = {}
DIFFERS = {"pruthi": "other random letters"}
REFUSED = {"bad-characters": "it searches by differential evolution, one kind of change at a time"}
NEEDS: dict[str, tuple[str, ...]] = {"pruthi": (), "bad-characters": ()}
