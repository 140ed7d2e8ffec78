"""BAE-R+I of Garg and Ramakrishnan, 2020: replaces a word, then inserts one next to it."""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.recipes.bae import NEEDS, SETTINGS, compose_bae
from attacks.strategies import StagedGreedy
from attacks.transformations import Stages


@recipe(needs=NEEDS, settings=SETTINGS, refused=NO_COUNTERPART)
def bae_r_then_i(parts: RecipeParts) -> Attack:
    """Compose BAE-R+I; the reference only has BAE-R."""
    stages = Stages([parts.masked_swap(50), parts.masked_insert(50)])
    return compose_bae(parts, stages, StagedGreedy(stages=2))
