"""All texts that a few changes reach, where there are few of them."""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, product
from typing import TypeVar

T = TypeVar("T")


def count(choices: Sequence[Collection[object]], k: int | None) -> int:
    """Return the number of texts of `reachable`."""
    # Coefficients of the product of (1 + others * x): the number of texts by number of changes.
    counts = [1]
    for choice in choices:
        if len(choice) == 1:
            continue
        longer = [*counts, 0]
        for changes, number in enumerate(counts):
            longer[changes + 1] += (len(choice) - 1) * number
        counts = longer
    return sum(counts if k is None else counts[: k + 1])


def reachable(choices: Sequence[Sequence[T]], k: int | None) -> Iterator[list[T]]:
    """Yield all texts with at most k changes (None: any number), those with few changes first.

    Alternatives at a position differ; its own word comes first.
    """
    own = [choice[0] for choice in choices]
    movable = [position for position, choice in enumerate(choices) if len(choice) > 1]
    most = len(movable) if k is None else min(k, len(movable))
    for number in range(most + 1):
        for positions in combinations(movable, number):
            for changed in product(*(choices[position][1:] for position in positions)):
                text = list(own)
                for position, choice in zip(positions, changed, strict=True):
                    text[position] = choice
                yield text
