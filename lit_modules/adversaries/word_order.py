"""Reuses the order in which an attack replaces the words of a text in later epochs."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from attacks.composition import Attack
from attacks.document import Document
from attacks.search import Greedy, KnownOrder
from lit_modules.adversaries.gathering import gather
from text import Text

Columns = tuple[str, ...]


class Rank(NamedTuple):
    """An order of words, the most important first, and the epoch of the attack that ranked them."""

    epoch: int
    order: list[int]


class Ranks:
    """Stores the order of words of each text for some epochs after that of the attack.

    An order is used from the next epoch on, so that the results do not depend on the batch and
    process of a text.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._known: dict[Columns, Rank] = {}
        self._fresh: dict[Columns, Rank] = {}
        self._restored: dict[Columns, Rank] = {}

    def start(self) -> None:
        """Begin a fit: the orders of an earlier one are discarded."""
        self._known, self._fresh, self._restored = self._restored, {}, {}

    def apply(self, attack: Attack, texts: Iterable[Text], epoch: int) -> Attack:
        """Return the attack with the stored orders of some texts.

        Raises:
            ValueError: it ranks no words.
        """
        if not isinstance(attack.search, Greedy):
            msg = f"got reuse_ranks for {attack.name}, expected a recipe that ranks words"
            raise ValueError(msg)
        orders: dict[Columns, list[int]] = {}
        for text in texts:
            columns = Document.of(text).columns
            rank = self._known.get(columns)
            if rank is not None and 0 < epoch - rank.epoch <= self.epochs:
                orders[columns] = rank.order
        return replace(attack, search=KnownOrder(ranking=attack.search.ranking, orders=orders))

    def learn(self, attack: Attack, epoch: int) -> None:
        """Store the orders that an attack from `apply` has found."""
        if isinstance(attack.search, KnownOrder):
            ranks = {
                columns: Rank(epoch, order) for columns, order in attack.search.new_orders.items()
            }
            _merge(self._fresh, ranks)

    def start_epoch(self, epoch: int) -> None:
        """Share the orders of the last epoch with the other processes; all have to call it."""
        for part in gather(self._fresh):
            _merge(self._known, part)
        self._fresh = {}
        self._known = {
            columns: rank
            for columns, rank in self._known.items()
            if epoch - rank.epoch <= self.epochs
        }

    def state(self) -> list[list[Any]]:
        """Return plain values; within an epoch, the new orders of this process only."""
        ranks = dict(self._known)
        _merge(ranks, self._fresh)
        return [[list(columns), rank.epoch, rank.order] for columns, rank in ranks.items()]

    def restore(self, state: Iterable[Any]) -> None:
        """Restore the result of `state`, for the next fit."""
        self._restored = {tuple(columns): Rank(epoch, order) for columns, epoch, order in state}


def _merge(into: dict[Columns, Rank], ranks: Mapping[Columns, Rank]) -> None:
    """Keep the latest order of each text."""
    for columns, rank in ranks.items():
        old = into.get(columns)
        # A repeated text may have two orders of one epoch: `min` does not depend on their sequence.
        same = old is not None and old.epoch == rank.epoch
        into[columns] = min(old, rank) if same and old is not None else rank
