"""IGA: Wang, Jin, He, "Natural Language Adversarial Attack and Defense in Word Level", 2019."""

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.strategies import Genetic


@recipe(
    needs=("neighbours",),
    settings=("candidates",),
    refused="it begins with a member for each stop word, too, and it bills a text for each member "
    "with it",
)
def iga(parts: RecipeParts) -> Attack:
    """Compose the improved genetic attack."""
    return parts.attack(
        transformation=parts.embedding_swap(50),
        # M = 20 generations of S = 60; a word may change five times.
        search=Genetic(population=60, generations=20, crossover="point", changes=5),
        # A word may change again: without RepeatModification.
        pre_constraints=[parts.stop_words(), *parts.columns()],
        constraints=[WordsChanged(share=0.2), parts.word_distance(0.5, against="current")],
    )
