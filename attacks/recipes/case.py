"""Other capitals: upper case, lower case, alternating, swapped.

Changes that every reader ignores; sources are the invariance tests of Ribeiro et al., "CheckList",
2020, for whole texts. Here the fewest words are changed that reach the goal.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.transformations.variants import Variant


def alternating(text: str) -> str:
    """Write every second character as a capital."""
    return "".join(char.upper() if i % 2 else char.lower() for i, char in enumerate(text))


@recipe(settings=("variants",), refused=NO_COUNTERPART)
def case(parts: RecipeParts) -> Attack:
    """Compose the attack by capitals."""
    return parts.whole_texts(
        [
            Variant("lower", str.lower),
            Variant("upper", str.upper),
            Variant("swapped", str.swapcase),
            Variant("capitalised", str.capitalize),
            Variant("alternating", alternating),
        ]
    )
