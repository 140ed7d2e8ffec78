"""Words replaced by those of perturbation sets: recipes, resources, typos, and unions of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from certify.threats.threat import Threat, ThreatName
from text import WordTokenizer
from text.corrector import Reach

Words = tuple[str, ...]
"""The words that replace a word: one or two."""


class WordSet(ABC):
    """A perturbation set: what each word may become, wherever it is.

    Attributes:
        name: name on the command line.
        statement: part of a sentence: "by a synonym of WordNet".
        splits: True if a word may become two.
    """

    name: str
    statement: str
    splits: bool = False

    @property
    @abstractmethod
    def content(self) -> Any:
        """JSON value of all that the set depends on."""

    @abstractmethod
    def contains(self, word: str, changed: Words) -> bool:
        """Return True if a word may become these words; the word itself is not asked for.

        Args:
            word: a word of `Threat.split`.
            changed: one or two words of a changed text.
        """

    @abstractmethod
    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """Return the ids that the changed words may get, for each word its own first.

        Args:
            words: words of `Threat.split`.
            tokenizer: of the model.
        """

    @abstractmethod
    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """Return what a word has to become, to get these ids; None if the set has nothing."""

    @property
    def change(self) -> str:
        """What happens to a word, as a noun: "a synonym of WordNet"."""
        return self.statement.removeprefix("by ")

    def listed(self, word: str) -> Sequence[str]:
        """Return what a word may become, as far as the set lists it."""
        return ()


class ListedWords(WordSet):
    """A set whose members can be listed for each word."""

    @abstractmethod
    def replacements(self, word: str) -> Sequence[str]:
        """Return what a word may become; two words have a space between them."""

    def listed(self, word: str) -> Sequence[str]:
        """See `WordSet`."""
        return self.replacements(word)

    def contains(self, word: str, changed: Words) -> bool:
        """See `WordSet`."""
        return " ".join(changed) in self.replacements(word)

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `WordSet`."""
        rows: list[tuple[int, int]] = []
        starts = [0]
        for word in words:
            texts = (word, *self.replacements(word))
            rows += dict.fromkeys(_ids_of(text, tokenizer) for text in texts)
            starts.append(len(rows))
        return Reach(torch.tensor(rows, dtype=torch.int64).view(-1, 2), torch.tensor(starts))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        texts = (word, *self.replacements(word))
        pair = (*ids, -1)[:2]
        return next((text for text in texts if _ids_of(text, tokenizer) == pair), None)


def _ids_of(text: str, tokenizer: WordTokenizer) -> tuple[int, int]:
    first, *second = tokenizer.ids(text.split(" "))
    return first, second[0] if second else -1


@dataclass(frozen=True, kw_only=True)
class Substitutions(Threat):
    """Texts in which at most k words are replaced by words of perturbation sets.

    Each changed word is changed once, by one of the sets. Case, spaces and what else does not
    change the words of a text is free; with a front end, so are its fibres.

    Attributes:
        sets: the perturbation sets, whose union each word may use.
    """

    name: ClassVar[ThreatName] = "substitutions"
    endless: ClassVar[bool] = True

    k: int | None = None
    sets: tuple[WordSet, ...]

    @property
    def title(self) -> str:
        """See `Threat`."""
        return "+".join(part.name for part in self.sets)

    @property
    def splits(self) -> bool:
        """True if a word may become two."""
        return any(part.splits for part in self.sets)

    def listed(self, word: str) -> Iterator[str]:
        """Yield the words that sets list for a word; not those of typos."""
        for part in self.sets:
            for text in part.listed(word):
                yield from text.split(" ")

    def contains(self, original: str, changed: str) -> bool:
        """See `Threat`."""
        words, others = self.split(original), self.split(changed)
        # Least number of changes that turn the words so far into the first n other words.
        costs = {0: 0}
        for word in words:
            longer: dict[int, int] = {}
            for end, cost in costs.items():
                for stop, more in self._steps(word, others, end):
                    longer[stop] = min(longer.get(stop, cost + more), cost + more)
            costs = longer
        count = costs.get(len(others))
        return count is not None and (self.k is None or count <= self.k)

    def _steps(self, word: str, others: Words, start: int) -> Iterator[tuple[int, int]]:
        """Yield the ends of what a word may have become from a start on, and their costs."""
        if others[start : start + 1] == (word,):
            yield start + 1, 0
        for size in (1, 2) if self.splits else (1,):
            changed = others[start : start + size]
            if len(changed) == size and any(part.contains(word, changed) for part in self.sets):
                yield start + size, 1

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """Return the ids that words may get, for each word its own first; see `WordSet.reach`."""
        parts = [part.reach(words, tokenizer) for part in self.sets]
        return parts[0] if len(parts) == 1 else unite(parts)

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """Return what a word has to become, to get these ids; None if no set has it."""
        found = (part.witness(word, ids, tokenizer) for part in self.sets)
        return next((text for text in found if text is not None), None)

    @property
    def content(self) -> Any:
        """See `Threat`."""
        return [*super().content, [part.content for part in self.sets]]

    @property
    def statement(self) -> str:
        """See `Threat`."""
        number = "any number of" if self.k is None else f"at most {self.k}"
        ways = ", or ".join(part.statement for part in self.sets)
        return f"{number} words are replaced, each {ways}"

    @property
    def condition(self) -> str:
        """See `Threat`."""
        ways = " or ".join(part.change for part in self.sets)
        words = "every word" if self.k is None else f"any {self.k} words"
        return f"against {ways} in {'any word' if self.k == 1 else words}"


def unite(parts: Sequence[Reach]) -> Reach:
    """Return the union of several sets for the same words, each result once, the own first."""
    count = len(parts[0].starts) - 1
    owners = [torch.arange(count).repeat_interleave(part.starts.diff()) for part in parts]
    # A stable sort by the owner keeps the own result of the first set in front.
    owner, order = torch.cat(owners).sort(stable=True)
    ids = torch.cat([part.ids for part in parts])[order]
    rows = torch.cat([owner.unsqueeze(1), ids], dim=1)
    distinct, inverse = torch.unique(rows, dim=0, return_inverse=True)
    first = torch.full((len(distinct),), len(rows)).scatter_reduce_(
        0, inverse, torch.arange(len(rows)), "amin"
    )
    chosen = first.sort().values
    starts = torch.zeros(count + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(owner[chosen], minlength=count).cumsum(0)
    return Reach(ids[chosen], starts)
