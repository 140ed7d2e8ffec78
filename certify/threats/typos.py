"""Typos: one edit of a character in a word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from certify.threats.substitutions import Words, WordSet
from text import WordSettings, WordTokenizer
from text.corrector import Reach
from text.typo_kinds import TypoKind, are_near
from text.word_splitter import WordSplitter


@dataclass(frozen=True)
class Typos(WordSet):
    """Words within one edit of a word: the set of `text.corrector.Corrector.reach`.

    A character is inserted, deleted, replaced by any other, or swapped with its neighbour. Marks
    inside a word do not count. The word stays a word, or, with `splits`, becomes two: a space or
    another separator is the inserted or the new character.

    Attributes:
        words: the words of the model, with a spelling corrector.
        splits: see above.
        kind: the edits that are made; None for all.

    Raises:
        ValueError: words without a corrector: a typo may give any unknown word.
    """

    words: WordSettings
    splits: bool = False
    kind: TypoKind | None = None
    name: str = "typos"

    def __post_init__(self) -> None:
        """Check the words."""
        if self.words.front_end != "spelling":
            msg = (
                f"got typos for words.front_end={self.words.front_end}, expected a model with "
                "words.split=joined and words.front_end=spelling"
            )
            raise ValueError(msg)

    @property
    def statement(self) -> str:  # type: ignore[override] # made of the settings
        """See `WordSet`."""
        if self.kind is not None:
            return self.kind.statement
        split = ", which may also split it" if self.splits else ""
        return f"by one typo (a character inserted, deleted, replaced or swapped{split})"

    @property
    def change(self) -> str:
        """See `WordSet`."""
        return "one typo or space" if self.splits else "one typo"

    @property
    def content(self) -> Any:
        """See `WordSet`."""
        return ["typos", self.splits, *([] if self.kind is None else [self.kind.content])]

    def contains(self, word: str, changed: Words) -> bool:
        """See `WordSet`."""
        if not changed:
            return False
        splitter = WordSplitter(self.words)
        (own,), parts = splitter.read([word]), splitter.read(changed)
        if len(parts) == 1:
            return (are_near if self.kind is None else self.kind.has)(own, parts[0])
        head, tail = parts
        if not self.splits or not own.startswith(head) or not own.endswith(tail):
            return False
        # The separator is inserted, or replaces a character.
        return len(own) - len(head) - len(tail) in (0, 1)

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `WordSet`."""
        own = tokenizer.splitter.read(words)
        return tokenizer.corrector.reach(own, splits=self.splits, kind=self.kind)

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        (own,) = tokenizer.splitter.read([word])
        return tokenizer.corrector.witness(own, ids, splits=self.splits, kind=self.kind)
