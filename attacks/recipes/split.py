"""The text inside a long harmless one, also beyond what the victim reads.

Source: Jia and Liang, "Adversarial Examples for Evaluating Reading Comprehension Systems", 2017
(an added text). The harmless text is made of drawn texts of other classes, or of lines of a file.
Tried are 50, 200 and 800 words (512 tokens are about 380 words), with the text at the end, in the
middle, and cut in two around them, the shortest first.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.strategies import WholeTexts
from attacks.transformations import Surround


@recipe(settings=("pool", "added_words"), refused=NO_COUNTERPART)
def split(parts: RecipeParts) -> Attack:
    """Compose the attack by a long harmless text."""
    most = parts.settings.added_words or 800
    lengths = sorted({max(1, most // 16), max(1, most // 4), most})
    surround = Surround(pool=parts.pool(), lengths=lengths)
    return parts.attack(
        transformation=surround,
        search=WholeTexts(stages=surround.stages, words=False),
        pre_constraints=parts.columns(),
    )
