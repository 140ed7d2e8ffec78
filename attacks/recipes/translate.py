"""Translations of the whole text, from a file of pairs.

Source: Deng et al., "Multilingual Jailbreak Challenges in Large Language Models", 2024. No model
translates here: `translations` is a file with a text, a tab and its translation on each line. A
text may have several translations; one without any is not changed.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.strategies import WholeTexts
from attacks.transformations.translations import Translate


@recipe(settings=("translations",), refused=NO_COUNTERPART)
def translate(parts: RecipeParts) -> Attack:
    """Compose the attack by translations."""
    return parts.attack(
        transformation=Translate(translations=parts.translations()),
        search=WholeTexts(stages=1, words=False),
        pre_constraints=parts.columns(),
    )
