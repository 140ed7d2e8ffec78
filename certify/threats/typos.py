"""Typos: one edit of a character in a word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from certify.threats.substitutions import Words, WordSet
from text import WordSettings, WordTokenizer
from text.corrector import Reach
from text.display import list_typos, may_turn
from text.typo_kinds import LETTERS, TypoKind, are_near
from text.word_splitter import WordSplitter


@dataclass(frozen=True)
class Typos(WordSet):
    """Words within one edit of a word: the set of `text.corrector.Corrector.reach`.

    A character is inserted, deleted, replaced by any other, or swapped with its neighbour. Marks
    inside a word do not count. The word stays a word, or, with `splits`, becomes two: a space or
    another separator is the inserted or the new character.

    With `words.canonical.display`, a word that may be upside down as well has the typos of both
    its spellings, and what is read after a typo may be upside down; marks of direction are no
    typos.

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
                "words.split=joined and words.front_end=spelling, or a victim with --vocabulary"
            )
            raise ValueError(msg)

    @property
    def statement(self) -> str:  # type: ignore[override] # made of the settings
        """See `WordSet`."""
        if self.kind is not None:
            return self.kind.statement
        split = ", which may also split it" if self.splits else ""
        if self.words.canonical.display:
            split = "; no mark of direction"
        return f"by one typo (a character inserted, deleted, replaced or swapped{split})"

    @property
    def covers_display(self) -> bool:  # type: ignore[override] # made of the settings
        """See `WordSet`."""
        return not self.splits and self.kind is None

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
        if len(parts) == 1 and self._turns(own):
            letters = "".join({*LETTERS, *parts[0]})
            return any(read == parts[0] for _, read in list_typos(own, letters))
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
        corrector = tokenizer.corrector
        reach = corrector.reach(own, splits=self.splits, kind=self.kind)
        if not any(map(self._turns, own)):
            return reach
        import torch

        rows = list(torch.split(reach.ids, reach.starts.diff().tolist()))
        for at, word in enumerate(own):
            if self._turns(word):
                typos = list_typos(word, corrector.alphabet(word))
                others = {corrector(read) for read in {read for _, read in typos}}
                # The word's own id comes first, as in `Corrector.reach`.
                ids = [first := corrector(word), *sorted(others - {first})]
                rows[at] = torch.tensor([[number, -1] for number in ids])
        return Reach(torch.cat(rows), torch.tensor([0, *map(len, rows)]).cumsum(0))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        (own,) = tokenizer.splitter.read([word])
        corrector = tokenizer.corrector
        if self._turns(own):
            typos = list_typos(own, corrector.alphabet(own))
            return next((typo for typo, read in typos if (corrector(read),) == ids), None)
        return corrector.witness(own, ids, splits=self.splits, kind=self.kind)

    def _turns(self, word: str) -> bool:
        return self.words.canonical.display and may_turn(word)
