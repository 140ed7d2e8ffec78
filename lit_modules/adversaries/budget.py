"""Counts the texts whose query budget is used up by the ranking of their words."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from attacks.composition import Attack, Context, Verdict
from attacks.document import Document
from attacks.recipe_settings import Budget
from attacks.search import Greedy
from text import Text


class Shortage(NamedTuple):
    """The number of texts that are too long for a budget.

    Attributes:
        short: texts for which ranking their words uses up the budget.
        seen: texts that were looked at.
        most: words to rank in the longest of them.
    """

    short: int
    seen: int
    most: int


def shortage(
    attack: Attack, budget: Budget, texts: Iterable[Text], *, columns: Sequence[str]
) -> Shortage:
    """Counts the texts that are too long for a budget.

    Args:
        attack: the attack.
        budget: query budget of a sample.
        texts: to be attacked.
        columns: names of the texts of a pair.

    Raises:
        ValueError: the attack names an unknown column.
    """
    # Gradients and random orders cost no question.
    ranking = attack.search.ranking if isinstance(attack.search, Greedy) else "random"
    asks = ranking not in {"gradient", "random"}
    short = seen = most = 0
    for text in texts:
        document = Document.of(text)
        context = Context(
            original=document,
            clean=Verdict(0.0, success=False, prediction=0),
            attack=attack,
            random=Random(0),
            columns=columns,
        )
        seen += 1
        words = len(context.allowed(document)) if document.words else 0
        if not asks:
            break
        most = max(most, words)
        short += words > 0 and 1 + words >= budget.budget(len(document))
    return Shortage(short, seen, most)
