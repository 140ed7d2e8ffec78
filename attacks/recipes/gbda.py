"""GBDA: Guo et al., "Gradient-based Adversarial Attacks against Text Transformers", 2021.

A distribution over the tokens of the text is optimised by the victim's gradient, for a margin of
the logits, similarity and fluency; then 100 texts are drawn from it. Settings are those of the
released code, with the weights of the paper (section 4.1).

Without `causal_lm` there is no term for fluency, and the similarity compares the victim's own
token embeddings, not the states of the language model. Differences: tokens count equally in the
similarity, where the code weighs them by their rarity; special tokens are not drawn and stay as
they are; tokens that are not replaced keep their capitals and spaces.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.strategies import TokenDistribution
from attacks.transformations import NoReplacements


@recipe(settings=("causal_lm",), refused=NO_COUNTERPART)
def gbda(parts: RecipeParts) -> Attack:
    """Compose the attack by a distribution over tokens."""
    return parts.attack(
        transformation=NoReplacements(),
        search=TokenDistribution(language_model=parts.causal_lm()),
        pre_constraints=parts.columns(),
        white_box=True,
    )
