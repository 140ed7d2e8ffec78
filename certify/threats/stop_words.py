"""Stop words that vanish, or that are inserted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from certify.threats.substitutions import Words, WordSet
from text import WordTokenizer
from text.corrector import Reach


@dataclass(frozen=True)
class DeletedStopWords(WordSet):
    """Words of a list that may vanish.

    Attributes:
        name: of the set.
        stop_words: the list, in the form of `Threat.split`.
    """

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

    Attributes:
        name: of the set.
        stop_words: the list, in the form of `Threat.split`, in a fixed order.
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
        """See `WordSet`; the order of a pair makes no difference to a sum."""
        import torch

        added = torch.tensor([-1, *dict.fromkeys(tokenizer.ids(self.stop_words))])
        own = torch.tensor(tokenizer.ids(words), dtype=torch.int64)
        rows = torch.stack([own.repeat_interleave(len(added)), added.repeat(len(own))], dim=1)
        return Reach(rows, torch.arange(len(own) + 1) * len(added))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        own, *added = ids
        if tokenizer.ids([word]) != [own]:
            return None
        pairs = zip(self.stop_words, tokenizer.ids(self.stop_words), strict=True)
        return next((f"{word} {other}" for other, index in pairs if added == [index]), None)
