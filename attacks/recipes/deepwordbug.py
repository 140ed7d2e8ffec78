"""DeepWordBug: Gao et al., "Black-box Generation of Adversarial Text Sequences", 2018."""

from attacks.composition import Attack
from attacks.constraints import EditDistance
from attacks.recipe_parts import RecipeParts
from attacks.recipes import RANKED, recipe
from attacks.search import Greedy
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    InsertCharacter,
    SubstituteCharacter,
    SwapCharacters,
)
from attacks.transformations.characters import letters_of


@recipe(settings=RANKED, differs="other random places and letters")
def deepwordbug(parts: RecipeParts) -> Attack:
    """Compose DeepWordBug."""
    letters = letters_of(parts.language)
    return parts.attack(
        # The paper makes one of these per word, and finds substitution best; the reference and this
        # try one of each and take the best.
        transformation=Composite(
            [
                SwapCharacters(),
                SubstituteCharacter(letters=letters),
                DeleteCharacter(),
                InsertCharacter(letters=letters),
            ]
        ),
        # The paper's combined score looks at the words before and after separately.
        search=Greedy(ranking="unk"),
        pre_constraints=parts.pre_constraints(),
        constraints=[EditDistance(30)],
    )
