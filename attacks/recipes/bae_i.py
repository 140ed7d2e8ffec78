"""BAE-I of Garg and Ramakrishnan, 2020: inserts a word to the left or right of a word."""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.recipes.bae import NEEDS, SETTINGS, compose_bae


@recipe(needs=NEEDS, settings=SETTINGS, refused=NO_COUNTERPART)
def bae_i(parts: RecipeParts) -> Attack:
    """Compose BAE-I; the reference only has BAE-R."""
    return compose_bae(parts, parts.masked_insert(50))
