"""Harmless words before or after the text, which itself does not change.

Sources: Lowd and Meek, "Good Word Attacks on Statistical Spam Filters", 2005;
vllm-project/semantic-router issues 3164, 3174, 3631, where random harmless words are appended. The
words of the pool are learned from labelled texts (`attacks.transformations.benign_texts`), or are
those of a file. `selection`: greedy asks about every word of the pool for each word that it adds,
which is the best choice for a victim whose score is a sum over words; ranked asks about each word
once; random draws ten times, and needs no scores.
"""

from attacks.composition import Attack, Search
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.search import Beam
from attacks.strategies import RandomAppends, RankedAppends
from attacks.transformations import AddWord


@recipe(settings=("pool", "added_words", "side", "selection", "candidates"), refused=NO_COUNTERPART)
def append_benign(parts: RecipeParts) -> Attack:
    """Compose the attack by harmless words."""
    length = parts.settings.added_words or 10
    searches: dict[str, Search] = {
        # A beam of width 1 takes the best of all words at each step.
        "greedy": Beam(width=1, depth=length),
        "ranked": RankedAppends(length=length),
        "random": RandomAppends(length=length),
    }
    return parts.attack(
        transformation=AddWord(
            pool=parts.pool(), side=parts.settings.side or "end", size=parts.candidates(100)
        ),
        search=searches[parts.settings.selection or "greedy"],
        pre_constraints=parts.columns(),
    )
