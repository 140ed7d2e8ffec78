"""LimeAttack: Zhu et al., "Local Explainable Method for Textual Hard-Label Attack", 2024.

An attack by predicted classes; the released code has a budget of 100 queries (`query_budget`).
Neighbours, constraints and stop words are those of `hard-label` and textfooler, so that the two
differ by their search alone; docs/attacks.md compares them.

Differences: the queries of the local model are counted, which the released code does not. The
nearest texts of the beam are those with the fewest changed words; the paper takes a sentence
encoder, which the code switches off (`semantic_sim` returns 1). No text is asked about twice.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.recipes.hard_label import NEEDS, SETTINGS, compose_hard_label
from attacks.strategies import LimeBeam


@recipe(needs=NEEDS, settings=SETTINGS, refused=NO_COUNTERPART)
def limeattack(parts: RecipeParts) -> Attack:
    """Compose the attack that ranks words by predicted classes."""
    return compose_hard_label(parts, LimeBeam())
