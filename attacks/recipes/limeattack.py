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
from attacks.strategies import LimeBeam


@recipe(
    needs=("neighbours", "tagger"),
    settings=("candidates", "word_similarity"),
    refused=NO_COUNTERPART,
)
def limeattack(parts: RecipeParts) -> Attack:
    """Compose the attack that ranks words by predicted classes."""
    return parts.attack(
        transformation=parts.embedding_swap(50),
        search=LimeBeam(),
        pre_constraints=parts.pre_constraints("textfooler"),
        constraints=[parts.word_similarity(0.5), parts.part_of_speech()],
    )
