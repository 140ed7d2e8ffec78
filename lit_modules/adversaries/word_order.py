"""The order in which an attack tries the words of a text, kept from one epoch to the next."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from attacks.composition import Attack
from attacks.document import Document
from attacks.search import Greedy, KnownOrder
from lit_modules.adversaries.gathering import gathered
from text import Text

Columns = tuple[str, ...]


class Rank(NamedTuple):
    """An order of words.

    Attributes:
        epoch: epoch in which it was found.
        order: numbers of words, the most important first.
    """

    epoch: int
    order: list[int]


class Ranks:
    """Remembers the order of words of each text for some epochs.

    What is found in an epoch is used from the next one on, so that it does not matter in which
    batch or process a text is.

    Args:
        epochs: number of epochs after its own in which an order is used.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._known: dict[Columns, Rank] = {}
        self._fresh: dict[Columns, Rank] = {}

    def ranked(self, attack: Attack, texts: Iterable[Text], epoch: int) -> Attack:
        """Returns the attack with the known orders of some texts.

        Raises:
            ValueError: it ranks no words.
        """
        if not isinstance(attack.search, Greedy):
            msg = f"got reuse_ranks for {attack.name}, expected a recipe that ranks words"
            raise ValueError(msg)
        known: dict[Columns, list[int]] = {}
        for text in texts:
            columns = Document.of(text).columns
            rank = self._known.get(columns)
            if rank is not None and 0 < epoch - rank.epoch <= self.epochs:
                known[columns] = rank.order
        return replace(attack, search=KnownOrder(ranking=attack.search.ranking, orders=known))

    def learn(self, attack: Attack, epoch: int) -> None:
        """Stores the orders that an attack from `ranked` has found."""
        if isinstance(attack.search, KnownOrder):
            found = {
                columns: Rank(epoch, order) for columns, order in attack.search.new_orders.items()
            }
            _merge(self._fresh, found)

    def start_epoch(self, epoch: int) -> None:
        """Shares the orders of the last epoch with the other processes; all have to call it."""
        for part in gathered(self._fresh):
            _merge(self._known, part)
        self._fresh = {}
        self._known = {
            columns: rank
            for columns, rank in self._known.items()
            if epoch - rank.epoch <= self.epochs
        }

    def state(self) -> list[list[Any]]:
        """Returns plain values; in the middle of an epoch only this process's orders are in it."""
        whole = dict(self._known)
        _merge(whole, self._fresh)
        return [[list(columns), rank.epoch, rank.order] for columns, rank in whole.items()]

    def restore(self, state: Iterable[Any]) -> None:
        """Restores what `state` returned."""
        self._fresh = {}
        self._known = {tuple(columns): Rank(epoch, order) for columns, epoch, order in state}


def _merge(into: dict[Columns, Rank], found: Mapping[Columns, Rank]) -> None:
    """The latest order of each text.

    A text that is twice in the corpus may have two orders of one epoch: the choice between them
    does not depend on which came first.
    """
    for columns, rank in found.items():
        old = into.get(columns)
        same = old is not None and old.epoch == rank.epoch
        into[columns] = min(old, rank) if same and old is not None else rank
