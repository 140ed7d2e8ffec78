"""Charmer: Abad Rocamora et al., "Revisiting Character-level Adversarial Attacks", 2024.

Each step puts a space at every position of the text, ranks the positions by the score, and takes
the best of all insertions, replacements and deletions at the first 20. The characters are those of
the texts that the attack learns from (the training split of a run; in the paper the attacked
split). At most 10 characters change, as in the released script for SST-2; it is 20 for AG News.

Differences: a search without an improvement ends, where the code repeats its last step; equal
scores are broken by position and text; each text is asked about once. Left out: the search by
gradients over weights of the edits (`--pga 1` in the code; its scripts for small models switch it
off), and the limits of the words that may change.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.strategies import RankedPositions
from attacks.transformations import SingleEdits


@recipe(settings=("pool", "candidates", "edits", "positions"), refused=NO_COUNTERPART)
def charmer(parts: RecipeParts) -> Attack:
    """Compose Charmer."""
    settings, lines = parts.settings, parts.pool()
    characters = None if lines is None else "".join(sorted({*"".join(lines)}))
    positions = 20 if settings.positions is None else settings.positions
    return parts.attack(
        transformation=SingleEdits(pool=characters, size=settings.candidates),
        search=RankedPositions(
            edits=settings.edits or 10, positions=None if positions == "all" else positions
        ),
        # Stop words may change: a character is as visible there as elsewhere.
        pre_constraints=parts.columns(),
    )
