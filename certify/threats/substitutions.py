"""Words replaced by those of perturbation sets: recipes, resources, typos, and unions of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from certify.threats.replacements import Replacements
from certify.threats.threat import ThreatName
from text import WordTokenizer
from text.corrector import Reach
from text.word_splitter import WordSplitter

if TYPE_CHECKING:
    from torch import Tensor

Words = tuple[str, ...]
"""The words that replace a word: none, one or two."""
TAG = "\t"
"""Between a word and its part of speech; no word has it."""


class WordSet(ABC):
    """A perturbation set: what each word may become, wherever it is.

    Attributes:
        name: name on the command line.
        statement: part of a sentence: "by a synonym of WordNet".
        splits: True if a word may become two.
        deletes: True if a word may become none.
        listable: True if `listed` has all that a word may become.
        covers_display: True if it has all that its changes are with `CanonicalForm.display`.
        tags: True if the set depends on the part of speech, which follows a word after `TAG`. A
            word without one stands for all of its parts of speech.
    """

    name: str
    statement: str
    splits: bool = False
    deletes: bool = False
    listable: bool = False
    covers_display: bool = False
    tags: bool = False

    @property
    @abstractmethod
    def content(self) -> Any:
        """JSON value of all that the set depends on."""

    @abstractmethod
    def contains(self, word: str, changed: Words) -> bool:
        """Return True if a word of `Threat.occurrences` may become other words: two, one or none.

        The word itself is not asked for.
        """

    @abstractmethod
    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """Return the ids that words of `occurrences` may get, for each word its own first."""

    @abstractmethod
    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """Return what a word has to become, to get these ids; None if the set has nothing."""

    @property
    def change(self) -> str:
        """The change of a word, as a noun: "a synonym of WordNet"."""
        return self.statement.removeprefix("by ")

    def listed(self, word: str) -> Sequence[str]:
        """Return what a word may become, as far as the set lists it."""
        return ()

    def tag(self, words: Sequence[str]) -> Sequence[str]:
        """Return the parts of speech of the words of a text, as they are written; see `tags`."""
        raise NotImplementedError  # sets without `tags` are never asked


class ListedWords(WordSet):
    """A set whose members can be listed for each word."""

    listable = True

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
        import torch

        rows: list[tuple[int, int]] = []
        starts = [0]
        for word in words:
            texts = (plain(word), *self.replacements(word))
            # A list takes the keys of a dictionary: each once, in their order.
            rows += dict.fromkeys(_ids_of(text, tokenizer) for text in texts)
            starts.append(len(rows))
        return Reach(torch.tensor(rows, dtype=torch.int64).view(-1, 2), torch.tensor(starts))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        texts = (plain(word), *self.replacements(word))
        # A single id is filled up with -1, as in the rows of `reach`.
        pair = (*ids, -1)[:2]
        return next((text for text in texts if _ids_of(text, tokenizer) == pair), None)


def plain(word: str) -> str:
    """Return a word without its part of speech."""
    return word.partition(TAG)[0]


def _ids_of(text: str, tokenizer: WordTokenizer) -> tuple[int, int]:
    first, *second = tokenizer.ids(text.split(" "))
    return first, second[0] if second else -1


@dataclass(frozen=True, kw_only=True)
class Substitutions(Replacements):
    """Texts in which at most k words are replaced by words of perturbation sets.

    Each changed word is changed once, by one of the sets. Case, spaces and what else does not
    change the words of a text is free; with a front end, so are its fibres.

    Attributes:
        sets: the perturbation sets, whose union each word may use.
    """

    name: ClassVar[ThreatName] = "substitutions"

    sets: tuple[WordSet, ...]

    @property
    def title(self) -> str:
        """See `Threat`."""
        return "+".join(part.name for part in self.sets)

    @property
    def covers_form(self) -> bool:
        """See `Threat`."""
        form = self.words.canonical
        if form.is_local and all(part.covers_display for part in self.sets):
            return True
        # Texts of one form are one text, whatever the form is.
        return super().covers_form or all(part.content == ["canonical"] for part in self.sets)

    @property
    def splits(self) -> bool:
        """True if a word may become two."""
        return any(part.splits for part in self.sets)

    @property
    def deletes(self) -> bool:
        """True if a word may vanish."""
        return any(part.deletes for part in self.sets)

    @property
    def moves(self) -> bool:
        """See `Replacements`."""
        return self.splits or self.deletes

    def occurrences(self, text: str) -> tuple[str, ...]:
        """Return the words of a text, with their parts of speech if a set depends on them."""
        words = self.split(text)
        part = next((part for part in self.sets if part.tags), None)
        if part is None:
            return words
        # As they are written: the tagger reads capitals.
        spans = WordSplitter(self.words).spans(text)
        tags = part.tag([text[start:end] for start, end in spans])
        return tuple(f"{word}{TAG}{tag}" for word, tag in zip(words, tags, strict=True))

    def listed(self, word: str) -> Iterator[str]:
        """Yield the words that sets list for a word; not those of typos."""
        for part in self.sets:
            for text in part.listed(word):
                yield from text.split(" ")

    def contains(self, original: str, changed: str) -> bool:
        """See `Threat`."""
        words, others = self.occurrences(original), self.split(changed)
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
        if others[start : start + 1] == (plain(word),):
            yield start + 1, 0
        for size in range(0 if self.deletes else 1, 3 if self.splits else 2):
            changed = others[start : start + size]
            if len(changed) == size and any(
                part.contains(own_form(part, word), changed) for part in self.sets
            ):
                yield start + size, 1

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `Replacements`."""
        parts = [
            part.reach([own_form(part, word) for word in words], tokenizer) for part in self.sets
        ]
        return parts[0] if len(parts) == 1 else unite(parts)

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `Replacements`."""
        found = (part.witness(own_form(part, word), ids, tokenizer) for part in self.sets)
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


def own_form(part: WordSet, word: str) -> str:
    """Return a word as a set takes it: with its part of speech if the set depends on it."""
    return word if part.tags else plain(word)


def unite(parts: Sequence[Reach]) -> Reach:
    """Return the union of several sets for the same words, each result once, the own first."""
    import torch

    count = len(parts[0].starts) - 1
    owners = [torch.arange(count).repeat_interleave(part.starts.diff()) for part in parts]
    # A stable sort by the owner keeps the own result of the first set in front.
    owner, order = torch.cat(owners).sort(stable=True)
    return distinct_rows(owner, torch.cat([part.ids for part in parts])[order], count)


def distinct_rows(owner: "Tensor", ids: "Tensor", count: int) -> Reach:
    """Return each result of each word once, in its first position.

    Args:
        owner: `[R]`, rising: the number of the word of each result.
        ids: `[R, 2]`.
        count: number of words.
    """
    import torch

    # Ids begin at -1: shifted by one, they are digits of a number in this base.
    base = int(ids.max()) + 2 if len(ids) else 2
    # One number for a word and its result; a stable sort keeps the first of equal ones in front.
    keys, order = ((owner * base + ids[:, 0] + 1) * base + ids[:, 1] + 1).sort(stable=True)
    # The first of each run of equal keys, back in the order of the words.
    chosen = order[torch.cat([keys.new_full((1,), -1), keys]).diff() != 0].sort().values
    starts = torch.zeros(count + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(owner[chosen], minlength=count).cumsum(0)
    return Reach(ids[chosen], starts)
