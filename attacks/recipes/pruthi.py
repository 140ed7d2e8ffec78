"""Pruthi, Dhingra, Lipton, "Combating Adversarial Misspellings", 2019: one typing error.

Paper and code insert any small letter at each position, also before the last; the reference and
this one random letter. The code swaps in words of five letters and more, and takes those of three
for its other errors.
"""

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.constraints.preconstraints import WordLength
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.search import Beam
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    InsertCharacter,
    NeighbourKey,
    SwapCharacters,
)
from attacks.transformations.characters import letters_of
from attacks.transformations.keys import LAYOUTS


@recipe(differs="other random letters")
def pruthi(parts: RecipeParts) -> Attack:
    """Compose the attack by one typing error."""
    inner = {"one": False, "keep_first": True, "keep_last": True}
    # The reference has a table of its own for English, with more keys than touch each other.
    own = parts.compat.reference and parts.language == "english"
    return parts.attack(
        transformation=Composite(
            [
                SwapCharacters(**inner),
                DeleteCharacter(**inner),
                InsertCharacter(letters=letters_of(parts.language), **inner),
                NeighbourKey(layout="textattack" if own else LAYOUTS[parts.language], **inner),
            ]
        ),
        # All words are tried, and the best change taken.
        search=Beam(width=1),
        # Words of four letters and more; the paper also looks at two changed words.
        pre_constraints=[*parts.pre_constraints(), WordLength(4)],
        constraints=[WordsChanged(maximum=1, compat=parts.compat)],
    )
