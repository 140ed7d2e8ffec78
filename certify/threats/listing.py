"""All texts that a few changes reach, where there are few of them."""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, product
from typing import TypeVar

T = TypeVar("T")


def count(choices: Sequence[Collection[object]], k: int | None) -> int:
    """Returns the number of texts of `reachable`.

    Args:
        choices: what may stand at each position; at least what stands there.
        k: largest number of changes; None for any number.
    """
    # Coefficients of the product of (1 + others * x): how many differ at each number of places.
    counts = [1]
    for choice in choices:
        if len(choice) == 1:
            continue
        longer = [*counts, 0]
        for number, known in enumerate(counts):
            longer[number + 1] += (len(choice) - 1) * known
        counts = longer
    return sum(counts if k is None else counts[: k + 1])


def reachable(choices: Sequence[Sequence[T]], k: int | None) -> Iterator[list[T]]:
    """Yields all texts with at most k changes, those with few changes first.

    Args:
        choices: what may stand at each position, different from each other; what stands there is
            the first.
        k: largest number of changes; None for any number.
    """
    own = [choice[0] for choice in choices]
    movable = [place for place, choice in enumerate(choices) if len(choice) > 1]
    most = len(movable) if k is None else min(k, len(movable))
    for number in range(most + 1):
        for places in combinations(movable, number):
            for changed in product(*(choices[place][1:] for place in places)):
                found = list(own)
                for place, one in zip(places, changed, strict=True):
                    found[place] = one
                yield found
