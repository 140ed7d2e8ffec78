"""A2T-MLM of Yoo and Qi, 2021: A2T with the words that a masked language model expects."""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import RANKED, recipe
from attacks.recipes.a2t import DIFFERS, compose_a2t


@recipe(
    needs=("masked-lm", "tagger", "sentence-encoder"),
    settings=("candidates", "similarity", *RANKED),
    differs=DIFFERS,
)
def a2t_mlm(parts: RecipeParts) -> Attack:
    """Compose A2T-MLM."""
    return compose_a2t(parts, parts.masked_swap(20), [])
