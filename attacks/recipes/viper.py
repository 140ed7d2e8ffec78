"""VIPER: Eger et al., "Text Processing Like Humans Do: Visually Attacking and Shielding NLP", 2019.

Each letter is replaced by a visual neighbour with probability p, without a search. `dces` draws
from the letters with a similar Unicode name, `eces` adds a diacritic. Left out: ICES, which
compares images of the letters and needs a font.

Differences: neighbours are Latin letters, and never the letter itself; the released code has some
other scripts, and draws the letter itself most often. Its table of ECES, made by hand, has another
diacritic for 20 of 52 letters. Each of the two is tried once.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.transformations.noise import Noise, add_diacritic, describe_like


@recipe(settings=("variants", "p"), refused=NO_COUNTERPART)
def viper(parts: RecipeParts) -> Attack:
    """Compose the attack by visual neighbours."""
    kinds = [Noise("dces", describe_like, "character"), Noise("eces", add_diacritic, "character")]
    return parts.random_noise(kinds, share=0.4)
