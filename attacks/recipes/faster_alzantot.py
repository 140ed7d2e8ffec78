"""Jia et al., "Certified Robustness to Adversarial Word Substitutions", 2019, appendix A.3.

Distances are measured from the original words, so that meaning cannot drift, and the language
model may lose 5 nats in a window of 6 words. The paper computes both once for the original text;
reference and this, for each change.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.recipes.alzantot import NEEDS, SETTINGS, compose_genetic
from attacks.strategies import Genetic


@recipe(
    needs=NEEDS,
    settings=SETTINGS,
    refused="it has a language model of films, and it bills a text for each member with it",
)
def faster_alzantot(parts: RecipeParts) -> Attack:
    """Compose the faster variant of Alzantot's attack."""
    search = Genetic(population=60, generations=40)
    return compose_genetic(parts, search, parts.fluency(drop=5.0), against="original")
