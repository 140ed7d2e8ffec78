"""One change of a word after another, in the same word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from certify.threats.substitutions import Words, WordSet, distinct_rows, plain
from text import WordTokenizer
from text.corrector import Reach


@dataclass(frozen=True)
class ChainedSets(WordSet):
    """A word of the first set, changed by the second: a typo in a synonym.

    Each of the two may be left out, so the set has both of them.

    Attributes:
        name: of the set.
        first: a listable set of single words.
        second: any set that needs no part of speech.
    """

    name: str
    first: WordSet
    second: WordSet

    @property
    def statement(self) -> str:  # type: ignore[override] # made of the two
        """See `WordSet`."""
        return f"{self.first.statement}, and then {self.second.statement}"

    @property
    def splits(self) -> bool:  # type: ignore[override] # see `statement`
        """See `WordSet`."""
        return self.second.splits

    @property
    def deletes(self) -> bool:  # type: ignore[override] # see `statement`
        """See `WordSet`."""
        return self.second.deletes

    @property
    def listable(self) -> bool:  # type: ignore[override] # see `statement`
        """See `WordSet`."""
        return self.second.listable

    @property
    def tags(self) -> bool:  # type: ignore[override] # see `statement`
        """See `WordSet`."""
        return self.first.tags

    @property
    def content(self) -> Any:
        """See `WordSet`."""
        return [self.name, self.first.content, self.second.content]

    def tag(self, words: Sequence[str]) -> Sequence[str]:
        """See `WordSet`."""
        return self.first.tag(words)

    def _between(self, word: str) -> tuple[str, ...]:
        """Return what the first set makes of a word; itself first."""
        return tuple(dict.fromkeys((plain(word), *self.first.listed(word))))

    def listed(self, word: str) -> Sequence[str]:
        """See `WordSet`."""
        between = self._between(word)
        return [*between[1:], *(text for new in between for text in self.second.listed(new))]

    def contains(self, word: str, changed: Words) -> bool:
        """See `WordSet`."""
        return any(
            (new,) == changed or self.second.contains(new, changed) for new in self._between(word)
        )

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `WordSet`."""
        import torch

        between = [self._between(word) for word in words]
        # Many words share a synonym.
        numbers = {new: i for i, new in enumerate(dict.fromkeys(w for row in between for w in row))}
        ids, starts = self.second.reach(list(numbers), tokenizer)
        chosen = torch.tensor([numbers[new] for row in between for new in row], dtype=torch.int64)
        lengths = starts.diff()[chosen]
        ends = lengths.cumsum(0)
        rows = torch.arange(int(lengths.sum())) + (
            starts[chosen] - ends + lengths
        ).repeat_interleave(lengths)
        owner = torch.arange(len(words)).repeat_interleave(
            torch.tensor([*map(len, between)], dtype=torch.int64)
        )
        return distinct_rows(owner.repeat_interleave(lengths), ids[rows], len(words))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        texts = (self.second.witness(new, ids, tokenizer) for new in self._between(word))
        return next((text for text in texts if text is not None), None)
