"""TextBugger: Li, Ji, Du, Li, Wang, "TextBugger", 2019, its black-box attack."""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import OTHER_ENCODER, RANKED, recipe
from attacks.resources.thresholds import PublishedThreshold
from attacks.search import Greedy
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    Homoglyphs,
    InsertSpace,
    SwapCharacters,
)

# The paper asks for a cosine of 0.8; the reference uses 0.8 as angular similarity, which is a
# cosine of 0.809.
SIMILARITY = PublishedThreshold(0.8, "angular", "use")


@recipe(
    needs=("neighbours", "sentence-encoder"),
    settings=("candidates", "similarity", *RANKED),
    differs=f"{OTHER_ENCODER}; other random places and letters",
)
def textbugger(parts: RecipeParts) -> Attack:
    """Compose TextBugger."""
    inner = {"keep_first": True, "keep_last": True}
    return parts.attack(
        transformation=Composite(
            [
                InsertSpace(),
                DeleteCharacter(**inner),
                SwapCharacters(**inner),
                # Also neighbours on the keyboard, in the paper; the reference has only these.
                Homoglyphs(),
                # GloVe in the paper; the reference and this take counter-fitted vectors.
                parts.embedding_swap(5),
            ]
        ),
        # The paper ranks sentences before words, which neither the reference nor this does.
        search=Greedy(ranking="delete"),
        pre_constraints=parts.pre_constraints(),
        constraints=parts.sentence_similarity(SIMILARITY, window=None),
    )
