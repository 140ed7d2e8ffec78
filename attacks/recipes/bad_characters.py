"""Boucher et al., "Bad Characters: Imperceptible NLP Attacks", 2022.

The paper looks for positions and characters of the whole text by differential evolution, with 1 to
5 changes. So does the reference, for one kind of change at a time and goals of its own. Here all
four kinds are tried in each word, the words in the order of their importance, which needs fewer
queries.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import RANKED, recipe
from attacks.search import Greedy
from attacks.transformations import Composite, InsertInvisible, Reorder, SwapTwins, TypeAndDelete


@recipe(
    settings=RANKED, refused="it searches by differential evolution, one kind of change at a time"
)
def bad_characters(parts: RecipeParts) -> Attack:
    """Compose the attack by characters that a reader does not see."""
    return parts.attack(
        transformation=Composite([InsertInvisible(), SwapTwins(), Reorder(), TypeAndDelete()]),
        search=Greedy(ranking="unk"),
        pre_constraints=parts.pre_constraints(),
    )
