"""Kuleshov et al., "Adversarial Examples for Natural Language Classification Problems", 2018.

The paper looks for another class with a probability of 0.7. In the reference it is enough that the
gold class has less than 0.7, also where it is still predicted; here an attack ends with the first
wrong prediction. Paper and this bound the distance of thought vectors by 0.2, the reference its
square. The language model may lose 2 nats; that of the reference is GPT-2.
"""

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.constraints.thought_vectors import ThoughtVectors
from attacks.goals import Unsure, Untargeted
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.search import Beam


@recipe(
    needs=("neighbours", "masked-lm"),
    settings=("candidates", "fluency"),
    differs="GPT-2 as its language model, which is left out here: `fluency` has to be 0",
)
def kuleshov(parts: RecipeParts) -> Attack:
    """Compose the greedy attack with thought vectors."""
    return parts.attack(
        transformation=parts.embedding_swap(15),
        search=Beam(width=1),
        goal=Unsure(bound=0.7) if parts.compat.reference else Untargeted(),
        pre_constraints=parts.pre_constraints(),
        constraints=[
            WordsChanged(share=0.5, compat=parts.compat),
            ThoughtVectors(parts.resources.neighbours().vectors, 0.2, compat=parts.compat),
            *parts.fluency(drop=2.0),
        ],
    )
