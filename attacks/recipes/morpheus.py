"""Tan et al., "It's Morphin' Time!", 2020: other inflected forms of words.

Paper and reference attack translation, with BLEU as the goal; here it is the class.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.search import Beam
from attacks.transformations import Inflect


@recipe(needs=("wordnet",), refused="it attacks translations, with other inflected forms")
def morpheus(parts: RecipeParts) -> Attack:
    """Compose the attack by inflected forms."""
    return parts.attack(
        transformation=Inflect(parts.resources.inflected()),
        search=Beam(width=1),
        pre_constraints=parts.pre_constraints(),
    )
