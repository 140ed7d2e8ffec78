"""Ebrahimi et al., "HotFlip", 2018, its attack on words (section 5).

Paper and reference take the flip with the largest gradient of all words of the victim, and then ask
for a cosine of 0.8 and the same part of speech, which few of them have. Here the neighbours of a
word are candidates from the start, in the order of the gradient.
"""

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.strategies import FlipBeam


@recipe(
    needs=("neighbours", "tagger"),
    settings=("candidates", "word_similarity"),
    refused="it takes the one word of the victim's vocabulary that the gradient likes best",
)
def hotflip(parts: RecipeParts) -> Attack:
    """Compose HotFlip on words."""
    return parts.attack(
        transformation=parts.embedding_swap(50),
        search=FlipBeam(width=10, flips=2),
        pre_constraints=parts.pre_constraints(),
        constraints=[
            WordsChanged(maximum=2),
            parts.word_similarity(0.8),
            parts.part_of_speech(allow_verb_noun_swap=False),
        ],
        white_box=True,
    )
