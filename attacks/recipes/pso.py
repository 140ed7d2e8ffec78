"""Zang et al., "Word-level Textual Adversarial Attacking as Combinatorial Optimization", 2020.

The paper replaces words by those with the same sememes in HowNet, and so does the reference, with a
list that it downloads. HowNet is not among our resources: words are replaced by the synonyms of
WordNet, the paper's own comparison (section 5.3). The code counts a success only with at most a
quarter of the words changed; neither the reference nor this does.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.strategies import Swarm


@recipe(
    needs=("wordnet",),
    refused="it takes words from HowNet, and it bills a text for each member with it",
)
def pso(parts: RecipeParts) -> Attack:
    """Compose the attack by a particle swarm."""
    return parts.attack(
        transformation=parts.wordnet_swap(),
        search=Swarm(population=60, generations=20),
        pre_constraints=parts.pre_constraints(),
    )
