"""A baseline: neighbours of random words, in random order, ten times over.

An attack that achieves more owes it to its search.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.search import RandomSearch


@recipe(needs=("neighbours",), settings=("candidates",), refused=NO_COUNTERPART)
def random(parts: RecipeParts) -> Attack:
    """Compose the baseline."""
    return parts.attack(
        transformation=parts.embedding_swap(50),
        search=RandomSearch(tries=10),
        pre_constraints=parts.pre_constraints("textfooler"),
    )
