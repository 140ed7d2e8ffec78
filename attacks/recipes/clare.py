"""CLARE: Li et al., "Contextualized Perturbation for Textual Adversarial Attack", 2021.

The paper's model is a distilled RoBERTa, fine-tuned on the corpus; here it is the masked language
model of the resources (`masked_lm`).
"""

from attacks.composition import Attack, Transformation
from attacks.recipe_parts import RecipeParts
from attacks.recipes import OTHER_ENCODER, recipe
from attacks.resources.thresholds import PublishedThreshold
from attacks.search import Beam
from attacks.strategies import RankedActions
from attacks.transformations import Actions, Composite

SIMILARITY = PublishedThreshold(0.7, "cosine", "use")


@recipe(
    needs=("tagger", "masked-lm", "sentence-encoder"),
    settings=("candidates", "similarity"),
    differs=f"{OTHER_ENCODER}; flair's tagger; `masked_lm` is distilroberta-base",
)
def clare(parts: RecipeParts) -> Attack:
    """Compose CLARE."""
    from attacks.transformations.inserted_words import MaskedLMMerge

    reference, k = parts.compat.reference, 50
    actions: list[Transformation] = [
        parts.masked_swap(k, minimum_confidence=5e-4),
        # After a word in the paper, before it in the reference.
        parts.masked_insert(k, side="left" if reference else "right"),
        MaskedLMMerge(
            *parts.resources.masked_lm(),
            parts.resources.tagger(),
            parts.candidates(k),
            minimum_confidence=5e-3,
            compat=parts.compat,
        ),
    ]
    return parts.attack(
        transformation=Composite(actions) if reference else Actions(actions),
        # Paper and code rank the actions of all positions once, in the original text, as here. The
        # reference looks for the best action of the whole text after each change. The code never
        # merges the first five words, which is not repeated.
        search=Beam(width=1) if reference else RankedActions(),
        # In the code stop words are protected from replacement alone, and in some corpora
        # adjectives, adverbs and auxiliary verbs are, too.
        pre_constraints=parts.pre_constraints(),
        # The code compares with the current text, with thresholds by corpus and action.
        constraints=parts.sentence_similarity(SIMILARITY),
    )
