"""Stop words that vanish, or that are inserted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from certify.threats.substitutions import Words, WordSet, distinct_rows
from text import WordTokenizer
from text.corrector import Reach


@dataclass(frozen=True)
class DeletedStopWords(WordSet):
    """Words of a list that may vanish; the list is in the form of `Threat.split`."""

    name: str
    stop_words: frozenset[str]
    statement: ClassVar[str] = "by nothing, if it is a stop word"  # type: ignore[misc] # the same
    deletes: ClassVar[bool] = True  # type: ignore[misc] # the same for all

    @property
    def content(self) -> Any:
        """See `WordSet`."""
        return [self.name, sorted(self.stop_words)]

    def contains(self, word: str, changed: Words) -> bool:
        """See `WordSet`."""
        return not changed and word in self.stop_words

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `WordSet`; nothing is padding, which has no score."""
        import torch

        vanish = torch.tensor([word in self.stop_words for word in words], dtype=torch.int64)
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), (1 + vanish).cumsum(0)])
        rows = torch.full((int(starts[-1]), 2), -1, dtype=torch.int64)
        rows[:, 0] = tokenizer.pad_id
        rows[starts[:-1], 0] = torch.tensor(tokenizer.ids(words), dtype=torch.int64)
        return Reach(rows, starts)

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        if tuple(tokenizer.ids([word])) == ids:
            return word
        return "" if word in self.stop_words and ids == (tokenizer.pad_id,) else None


@dataclass(frozen=True)
class InsertedStopWords(WordSet):
    """Words with a word of a list before or after them.

    The list is in the form of `Threat.split`, in a fixed order.
    """

    name: str
    stop_words: tuple[str, ...]
    statement: ClassVar[str] = (  # type: ignore[misc] # the same for all
        "by itself and a stop word before or after it"
    )
    splits: ClassVar[bool] = True  # type: ignore[misc] # the same for all

    @property
    def content(self) -> Any:
        """See `WordSet`."""
        return [self.name, *self.stop_words]

    def contains(self, word: str, changed: Words) -> bool:
        """See `WordSet`."""
        pairs = (changed, changed[::-1]) if len(changed) == 2 else ()
        return any(own == word and other in self.stop_words for own, other in pairs)

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `WordSet`."""
        import torch

        added = torch.tensor(tokenizer.ids(self.stop_words), dtype=torch.int64)
        own = torch.tensor(tokenizer.ids(words), dtype=torch.int64).unsqueeze(1)
        pairs = torch.stack([own.expand(-1, len(added)), added.expand(len(own), -1)], dim=2)
        # The word alone, with a stop word after it, and before it.
        alone = torch.stack([own, torch.full_like(own, -1)], dim=2)
        rows = torch.cat([alone, pairs, pairs.flip(2)], dim=1)
        owner = torch.arange(len(own)).repeat_interleave(rows.shape[1])
        return distinct_rows(owner, rows.flatten(0, 1), len(own))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        (own,) = tokenizer.ids([word])
        if ids == (own,):
            return word
        for other, index in zip(self.stop_words, tokenizer.ids(self.stop_words), strict=True):
            if ids == (own, index):
                return f"{word} {other}"
            if ids == (index, own):
                return f"{other} {word}"
        return None
