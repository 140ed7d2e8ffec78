"""Feng et al., "Pathologies of Neural Models Make Interpretations Difficult", 2018.

It succeeds where a word can go without a change of the prediction; the figure that counts is the
share of words that went. Paper and code rank the words anew after each step, by the gradient, with
a beam of 5, and so does this; without gradients it leaves out each word. Code and AllenNLP differ
in the weight of a token: the code takes the product of the gradient and the embedding, AllenNLP the
gradient's L2 norm, with a beam of 3; here it is the L1 norm of the word's mean gradient. The
reference ranks the words once, by the loss of the score without them.
"""

from attacks.composition import Attack
from attacks.goals import Unchanged
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.strategies import RankedReduction, Reduction
from attacks.transformations import DeleteWord


@recipe()
def input_reduction(parts: RecipeParts) -> Attack:
    """Compose input reduction, which may delete stop words, and words next to deleted ones."""
    return parts.attack(
        transformation=DeleteWord(compat=parts.compat),
        search=RankedReduction() if parts.compat.reference else Reduction(width=5),
        goal=Unchanged(),
        pre_constraints=parts.columns(),
    )
