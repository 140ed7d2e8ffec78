"""BAE-R/I of Garg and Ramakrishnan, 2020: replaces a word, or inserts one next to it."""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.recipes.bae import NEEDS, SETTINGS, compose_bae
from attacks.transformations import Composite


@recipe(needs=NEEDS, settings=SETTINGS, refused=NO_COUNTERPART)
def bae_ri(parts: RecipeParts) -> Attack:
    """Compose BAE-R/I, which takes the better of both changes; the reference only has BAE-R."""
    return compose_bae(parts, Composite([parts.masked_swap(50), parts.masked_insert(50)]))
