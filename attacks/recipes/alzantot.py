"""Alzantot et al., "Generating Natural Language Adversarial Examples", 2018."""

from typing import Literal

from attacks.composition import Attack, Constraint
from attacks.constraints import WordsChanged
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.strategies import Genetic

NEEDS = ("neighbours", "masked-lm")
SETTINGS = ("candidates", "fluency")


@recipe(
    needs=NEEDS,
    settings=SETTINGS,
    refused="it has a language model of the 1 Billion Words, and it bills a text for each member "
    "with it",
)
def alzantot(parts: RecipeParts) -> Attack:
    """Compose the genetic attack."""
    return compose_genetic(
        parts,
        # The code draws 20 generations, and so do the reference and this. Its class has 20
        # neighbours and the 5 likeliest of them by default, where the paper has 8 and 4.
        Genetic(population=60, generations=20),
        # Of the 8 neighbours the 4 that a language model finds likeliest. Paper and code have one
        # of the "1 Billion Words"; the reference the same; here it is the masked language model.
        parts.fluency(top=4),
        # From the current word: the meaning may drift.
        against="current",
    )


def compose_genetic(
    parts: RecipeParts,
    search: Genetic,
    language_model: list[Constraint],
    *,
    against: Literal["original", "current"],
) -> Attack:
    """Compose this attack or its faster variant; `against` selects the word that counts."""
    return parts.attack(
        transformation=parts.embedding_swap(8),
        search=search,
        pre_constraints=parts.pre_constraints(),
        constraints=[
            # At most 20 % of the words; children keep that here, and not in the reference.
            WordsChanged(share=0.2),
            parts.word_distance(0.5, against=against),
            *language_model,
        ],
    )
