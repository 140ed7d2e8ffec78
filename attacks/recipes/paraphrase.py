"""Paraphrases of the whole text by a language model, from a file.

Source: Xu et al., "An LLM can Fool Itself" (PromptAttack), 2024. There, a BERTScore and a share of
changed words tell whether a text keeps its meaning; here the sentence encoder of the other attacks
does. `resources paraphrases` writes the file before the attack, so that each model is attacked with
the same texts, and a query is a query of the victim alone. The first by the alphabet that succeeds
is the adversarial text.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.resources.thresholds import PublishedThreshold
from attacks.strategies import WholeTexts
from attacks.transformations.translations import Translate

# Of TextBugger; PromptAttack's BERTScore has no counterpart among cosines of sentences.
SIMILARITY = PublishedThreshold(0.8, "angular", "use")


@recipe(needs=("sentence-encoder",), settings=("paraphrases", "similarity"), refused=NO_COUNTERPART)
def paraphrase(parts: RecipeParts) -> Attack:
    """Compose the attack by paraphrases."""
    return parts.attack(
        # A text without a line is an error: it would count as robust.
        transformation=Translate(translations=parts.paraphrases(), complete=True),
        search=WholeTexts(stages=1, words=False),
        pre_constraints=parts.columns(),
        constraints=parts.sentence_similarity(SIMILARITY, window=None),
    )
