"""Maheshwary et al., "Generating Natural Language Attacks in a Hard Label Setting", 2021.

The reference has no such attack. Neighbours and constraints are TextFooler's, as in the paper. The
code changes nouns, verbs, adjectives and adverbs of three letters and more, and chooses texts by
their sentence similarity; here it is the number of changed words.
"""

from attacks.composition import Attack, Search
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.strategies import HardLabel

NEEDS = ("neighbours", "tagger")
SETTINGS = ("candidates", "word_similarity")


@recipe(needs=NEEDS, settings=SETTINGS, refused=NO_COUNTERPART)
def hard_label(parts: RecipeParts) -> Attack:
    """Compose the attack that sees predicted classes only."""
    return compose_hard_label(parts, HardLabel())


def compose_hard_label(parts: RecipeParts, search: Search) -> Attack:
    """Compose an attack by predicted classes, all of which differ by their search alone."""
    return parts.attack(
        transformation=parts.embedding_swap(50),
        search=search,
        pre_constraints=parts.pre_constraints("textfooler"),
        constraints=[parts.word_similarity(0.5), parts.part_of_speech()],
    )
