"""LEAP: Xiao et al., "LEAP: Efficient and Automated Test Method for NLP Software", 2023.

A particle swarm on the synonyms of WordNet, in the settings of the released code. The comments of
`attacks.strategies.Leap` compare the search with that code.

Differences: no text has more than 16 % of its words changed, rounded up; there, a particle may
exceed this share when it turns. A changed word may change again.
"""

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.strategies import Leap


@recipe(
    needs=("wordnet",),
    refused="its particles may exceed the share of words; it bills a text for each member with it",
)
def leap(parts: RecipeParts) -> Attack:
    """Compose the attack by a swarm with Levy flights."""
    return parts.attack(
        transformation=parts.wordnet_swap(),
        search=Leap(population=60, generations=20),
        pre_constraints=[parts.stop_words(), *parts.columns()],
        constraints=[WordsChanged(share=0.16)],
    )
