"""PWWS: Ren, Deng, He, Che, "Generating Natural Language Adversarial Examples", 2019."""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import RANKED, recipe
from attacks.search import Greedy


@recipe(needs=("wordnet",), settings=RANKED)
def pwws(parts: RecipeParts) -> Attack:
    """Compose PWWS."""
    return parts.attack(
        # Of the synonyms, and also named entities of other classes in the paper.
        transformation=parts.wordnet_swap(),
        # The paper weighs by how much a replacement changes the probability, and then replaces each
        # word by the best one for the original text. The reference weighs by the probability
        # itself, and looks for the best replacement anew, in the current text. Here the change is
        # weighed, and the replacement looked for anew.
        search=Greedy(ranking="weighted-saliency"),
        pre_constraints=parts.pre_constraints(),
    )
