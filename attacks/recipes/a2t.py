"""A2T: Yoo and Qi, "Towards Improving Adversarial Training of NLP Models", 2021.

Its variant with a masked language model is `a2t-mlm`.
"""

from attacks.composition import Attack, Constraint, Transformation
from attacks.constraints.preconstraints import MaxModificationRate
from attacks.recipe_parts import RecipeParts
from attacks.recipes import OTHER_ENCODER, RANKED, recipe
from attacks.resources.thresholds import PublishedThreshold
from attacks.search import Greedy

# Of a DistilBERT trained on human similarity (STS-B): its 0.9 is a human similarity of 4.5 out of
# 5, and so is ours.
SIMILARITY = PublishedThreshold(0.9, "cosine", "sts")
DIFFERS = f"{OTHER_ENCODER}; dropout while words are ranked"


@recipe(
    needs=("neighbours", "tagger", "sentence-encoder"),
    settings=("candidates", "word_similarity", "similarity", *RANKED),
    differs=DIFFERS,
)
def a2t(parts: RecipeParts) -> Attack:
    """Compose A2T with neighbours among word vectors."""
    # The reference asks the sentence encoder first and the word vectors last, which keeps the same
    # words at many times the cost: here cheap constraints come first (`Constraint.cost`).
    return compose_a2t(parts, parts.embedding_swap(20), [parts.word_similarity(0.8)])


def compose_a2t(
    parts: RecipeParts, transformation: Transformation, constraints: list[Constraint]
) -> Attack:
    """Compose A2T, whose two variants differ by their transformation."""
    return parts.attack(
        transformation=transformation,
        # One gradient of the loss for the model's own prediction, which costs no query. The
        # reference takes it in training mode, with dropout: its order of words is random.
        search=Greedy(ranking="gradient"),
        pre_constraints=[*parts.pre_constraints(keeps_premise=True), MaxModificationRate(0.1, 4)],
        constraints=[
            *constraints,
            # No verb for a noun, unlike TextFooler.
            parts.part_of_speech(allow_verb_noun_swap=False),
            *parts.sentence_similarity(SIMILARITY, window=None),
        ],
    )
