"""TextFooler: Jin, Jin, Zhou, Szolovits, "Is BERT Really Robust?", 2020."""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import OTHER_ENCODER, RANKED, recipe
from attacks.resources.thresholds import PublishedThreshold
from attacks.search import Greedy

# 0.8408 = 1 - 0.5 / pi: the code compared the angle itself with 0.5.
SIMILARITY = PublishedThreshold(0.840845057, "angular", "use")


@recipe(
    needs=("neighbours", "tagger", "sentence-encoder"),
    settings=("candidates", "word_similarity", "similarity", *RANKED),
    differs=OTHER_ENCODER,
)
def textfooler(parts: RecipeParts) -> Attack:
    """Compose TextFooler."""
    return parts.attack(
        transformation=parts.embedding_swap(50),
        # The code also adds how far the label changed to the importance of a word; the paper does
        # not say so, and neither the reference nor this does it.
        search=Greedy(ranking="delete"),
        pre_constraints=parts.pre_constraints("textfooler", keeps_premise=True),
        constraints=[
            # The paper says 0.7, its code 0.5, and so does the reference.
            parts.word_similarity(0.5),
            # The code tags the changed text, the reference always the original one. Here it is the
            # current text, for the old and the new word alike.
            parts.part_of_speech(),
            # The code compares with the text before each change, so that the meaning may drift;
            # and it leaves short texts a threshold of 0.1, the reference none at all.
            *parts.sentence_similarity(SIMILARITY, against="current"),
        ],
    )
