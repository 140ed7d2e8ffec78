"""Zeroe: Eger and Benz, "From Hero to Zeroe: A Benchmark of Low-Level Adversarial Attacks", 2020.

Random noise of one kind in a share p of the words (of the letters for `visual`, of the spaces for
`segment`), without a search. The paper has 0.2, 0.5 and 0.8. Each kind is tried once, as a separate
attack there; the first that succeeds ends the attack.

Differences: `visual` is VIPER's `dces`, where the paper compares images of letters; `keyboard` has
no digits, and draws each wrong key of a word equally often. Left out: phonetic noise needs a
trained network, and natural typing errors a list of them.
"""

from functools import partial

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.transformations.keys import LAYOUTS, NeighbourKey
from attacks.transformations.noise import (
    Noise,
    WrongKey,
    describe_like,
    disemvowel,
    intrude,
    remove,
    shuffle_all,
    shuffle_inside,
    truncate,
)

SHARE = 0.5


@recipe(settings=("variants", "p"), refused=NO_COUNTERPART)
def zeroe(parts: RecipeParts) -> Attack:
    """Compose the attack by orthographic noise."""
    share = SHARE if parts.settings.p is None else parts.settings.p
    kinds = [
        Noise("inner-shuffle", shuffle_inside),
        Noise("full-shuffle", shuffle_all),
        Noise("intrude", partial(intrude, share=share)),
        Noise("disemvowel", disemvowel),
        Noise("truncate", truncate),
        Noise("segment", remove, "space"),
        Noise("keyboard", WrongKey(NeighbourKey(layout=LAYOUTS[parts.language]))),
        Noise("visual", describe_like, "character"),
    ]
    return parts.random_noise(kinds, share=share)
