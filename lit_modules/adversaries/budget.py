"""Counts the texts for which ranking the words uses up the query budget."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from attacks.composition import Attack, Context, Verdict
from attacks.document import Document
from attacks.recipe_settings import Budget
from attacks.search import Greedy
from text import Text


class Shortage(NamedTuple):
    """The number of examined texts, and of those whose ranking of words exhausts a budget.

    `longest` are the words to rank in the longest of them.
    """

    exhausted: int
    texts: int
    longest: int


def shortage(
    attack: Attack, budget: Budget, texts: Iterable[Text], *, columns: Sequence[str]
) -> Shortage:
    """Count the texts that are too long for the query budget of a sample.

    `columns` name the texts of a pair.

    Raises:
        ValueError: the attack names an unknown column.
    """
    # Gradients and random orders need no queries.
    ranking = attack.search.ranking if isinstance(attack.search, Greedy) else "random"
    queries = ranking not in {"gradient", "random"}
    exhausted = examined = longest = 0
    for text in texts:
        document = Document.of(text)
        context = Context(
            original=document,
            clean=Verdict(0.0, success=False, prediction=0),
            attack=attack,
            random=Random(0),
            columns=columns,
        )
        examined += 1
        # The first text is examined in any case: an unknown column is an error.
        words = len(context.allowed(document)) if document.words else 0
        if not queries:
            break
        longest = max(longest, words)
        # One query for the clean text, one for each word.
        exhausted += words > 0 and 1 + words >= budget.budget(len(document))
    return Shortage(exhausted, examined, longest)
