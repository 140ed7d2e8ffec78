"""A text as words that can be replaced; everything between them stays."""

import re
from collections.abc import Sequence
from functools import lru_cache

from text import Text
from text.marks import MARKS

_EDGES = "'-_*@"
"""Part of a word inside it, not at its ends: well-placed, don't, user@host."""
_LETTERS = r"\w'\-*@˗`×"
_RUN = re.compile(f"[{_LETTERS}][{_LETTERS}{MARKS}]*")
"""Letters with their marks, digits, what may stand inside words, and three characters that pose as
letters."""


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each word in characters; punctuation belongs to none."""
    spans = []
    for match in _RUN.finditer(text):
        run = match.group()
        start = match.start() + len(run) - len(run.lstrip(_EDGES))
        end = match.start() + len(run.rstrip(_EDGES))
        if start < end:
            spans.append((start, end))
    return spans


def words_of(text: str) -> list[str]:
    """Returns the words of a text."""
    return [text[start:end] for start, end in word_spans(text)]


@lru_cache(maxsize=1 << 15)
def count_words(text: str) -> int:
    """Returns the number of words in a replacement."""
    return len(word_spans(text))


class Candidate:
    """A document with one word replaced; cheap, for most candidates are thrown away.

    Attributes:
        base: the document.
        index: the word that is replaced.
        word: the replacement; empty if the word was deleted.
        columns: the resulting texts.
        similarity: similarity by a sentence encoder, if one was asked.
    """

    __slots__ = ("base", "columns", "index", "similarity", "word")

    def __init__(self, base: "Document", index: int, word: str, columns: tuple[str, ...]) -> None:
        self.base, self.index, self.word, self.columns = base, index, word, columns
        self.similarity: float | None = None

    @property
    def text(self) -> Text:
        """The text that a victim gets."""
        return as_text(self.columns)


class Document:
    """One text, or the texts of a pair, with their words numbered through.

    Args:
        columns: one text, or two.
        modified: numbers of the words that have been replaced.
        origin: number that each word had in the original; -1 for inserted ones. The same numbers if
            not given.
        similarity: similarity of the candidate it was made from.
    """

    __slots__ = ("_frames", "columns", "modified", "origin", "similarity", "spans", "words")

    def __init__(
        self,
        columns: tuple[str, ...],
        *,
        modified: frozenset[int] = frozenset(),
        origin: Sequence[int] | None = None,
        similarity: float | None = None,
    ) -> None:
        self.columns = columns
        self.modified = modified
        self.similarity = similarity
        self.spans = [
            (column, start, end)
            for column, text in enumerate(columns)
            for start, end in word_spans(text)
        ]
        self.words = [columns[column][start:end] for column, start, end in self.spans]
        self.origin = list(range(len(self.words))) if origin is None else list(origin)
        self._frames: dict[int, tuple[str, str]] = {}

    @classmethod
    def of(cls, text: Text) -> "Document":
        """Makes the document of a text or pair."""
        return cls((text,) if isinstance(text, str) else tuple(text))

    @property
    def text(self) -> Text:
        """The text that a victim gets."""
        return as_text(self.columns)

    def __len__(self) -> int:
        return len(self.words)

    def column_of(self, index: int) -> int:
        """Returns the number of the text in which a word stands."""
        return self.spans[index][0]

    def position(self, original: int) -> int | None:
        """Returns the present number of a word of the original; None if it is gone."""
        if original < len(self.origin) and self.origin[original] == original:
            return original
        return self.origin.index(original) if original in self.origin else None

    def replace(self, index: int, word: str) -> Candidate:
        """Replaces a word.

        A replacement that is no word (a comma) removes the space before it.
        """
        return self.replace_by(index, (word,))[0]

    def replace_by(self, index: int, words: Sequence[str]) -> list[Candidate]:
        """Returns a candidate for each of several replacements of a word; see `replace`."""
        frame = self._frames.get(index)
        column, start, end = self.spans[index]
        if frame is None:
            text = self.columns[column]
            frame = self._frames[index] = (text[:start], text[end:])
        before, after = frame
        texts = [
            before + word + after if count_words(word) else self._without(index, word)
            for word in words
        ]
        first, rest = self.columns[:column], self.columns[column + 1 :]
        return [
            Candidate(self, index, word, (*first, text, *rest))
            for word, text in zip(words, texts, strict=True)
        ]

    def _without(self, index: int, mark: str) -> str:
        """Replaces a word by something that is no word."""
        column, start, end = self.spans[index]
        before, after = self.columns[column][:start], self.columns[column][end:]
        if index == 0:
            after = after.removeprefix(" ")
        elif after or column + 1 < len(self.columns):
            before = before.removesuffix(" ")
        return before + mark + after

    def delete(self, index: int) -> Candidate:
        """Deletes a word and one of the spaces around it."""
        column, start, end = self.spans[index]
        text = self.columns[column]
        before, after = text[:start], text[end:]
        if index == 0 or not before:
            after = after.removeprefix(" ")
        else:
            before = before.removesuffix(" ")
        columns = (*self.columns[:column], before + after, *self.columns[column + 1 :])
        return Candidate(self, index, "", columns)

    def accept(self, candidate: Candidate, *, whole: bool = False) -> "Document":
        """Makes a document of a candidate of this one.

        Args:
            candidate: made from this document.
            whole: count all words of the replacement as modified, also one that was there before.
        """
        index = candidate.index
        made = Document(candidate.columns, similarity=candidate.similarity)
        count = 1 + len(made.words) - len(self.words)
        if count < 0:  # a replacement that joined a neighbour: no word is where it was
            made.origin = [-1] * len(made.words)
            made.modified = frozenset(range(len(made.words)))
            return made
        new = list(range(index, index + count))
        if not whole:
            new = [i for i in new if made.words[i] != self.words[index]]
        moved = [i if i < index else i + count - 1 for i in self.modified if i != index]
        made.modified = frozenset((*moved, *new))
        inserted = [self.origin[index], *[-1] * (count - 1)] if count else []
        made.origin = [*self.origin[:index], *inserted, *self.origin[index + 1 :]]
        return made


def as_text(columns: tuple[str, ...]) -> Text:
    """Returns a single text as a string, a pair as a pair."""
    return columns[0] if len(columns) == 1 else (columns[0], columns[1])
