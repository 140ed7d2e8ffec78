"""A text as words that can be replaced; the rest of the text does not change."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from text import Text
from text.marks import MARKS

_EDGES = "'-_*@"
"""Part of a word inside it, not at its ends: well-placed, don't, user@host."""
_LETTERS = r"\w'\-*@˗`×"
_RUN = re.compile(f"[{_LETTERS}][{_LETTERS}{MARKS}]*")
"""Letters with their marks, digits, what may stand inside words, and three characters that pose as
letters."""

Spans = list[tuple[int, int]]
Cut = Callable[[str], Spans]
"""Cuts a run of letters without spaces into words: start and end of each (`resources.segmenters`).
"""


def word_spans(text: str) -> Spans:
    """Return start and end of each word in characters; punctuation belongs to none."""
    spans = []
    for match in _RUN.finditer(text):
        run = match.group()
        # Quotes and dashes around a word are no part of it.
        start = match.start() + len(run) - len(run.lstrip(_EDGES))
        end = match.start() + len(run.rstrip(_EDGES))
        if start < end:
            spans.append((start, end))
    return spans


def cut_spans(text: str, cut: Cut | None) -> Spans:
    """Return start and end of each word; `cut` divides runs of letters further."""
    if cut is None:
        return word_spans(text)
    return [
        (start + begin, start + stop)
        for start, end in word_spans(text)
        for begin, stop in cut(text[start:end])
    ]


def words_of(text: str) -> list[str]:
    """Return the words of a text."""
    return [text[start:end] for start, end in word_spans(text)]


@lru_cache(maxsize=1 << 15)
def count_words(text: str) -> int:
    """Return the number of words in a replacement."""
    return len(word_spans(text))


def hides(text: str) -> bool:
    """Return True if it has letters that are not displayed: a program may still read a word."""
    # From plane 14 on there are tags, variation selectors and private characters only.
    return max(text, default="") >= "\U000e0000"


class Candidate:
    """A document with a change in one place; cheap, for most candidates are thrown away.

    Attributes:
        base: the document.
        index: the word that is replaced, or the number that an inserted word gets.
        word: the replacement; empty if the word was deleted.
        columns: the resulting texts.
        width: number of words that are replaced: 0 inserts, 2 merges two words.
        similarity: similarity by a sentence encoder, if one was asked.
    """

    __slots__ = ("base", "columns", "index", "similarity", "width", "word")

    def __init__(
        self, base: "Document", index: int, word: str, columns: tuple[str, ...], *, width: int = 1
    ) -> None:
        self.base, self.index, self.word, self.columns = base, index, word, columns
        self.width = width
        self.similarity: float | None = None

    @property
    def column(self) -> int:
        """The number of the text that is changed."""
        if self.width:
            return self.base.spans[self.index][0]
        changed = (i for i, text in enumerate(self.columns) if text != self.base.columns[i])
        return next(changed, 0)

    @property
    def text(self) -> Text:
        """The text that a victim gets."""
        return as_text(self.columns)


class Document:
    """One text, or the texts of a pair, with their words numbered through.

    Args:
        columns: one text, or two.
        similarity: similarity of the candidate it was made from.
        cut: cuts runs of letters into words, for scripts without spaces.
        spans: column, start and end of each word, if they are known.

    Attributes:
        modified: numbers of the words that have been replaced.
        origin: number that each word had in the original; -1 for inserted ones.
    """

    __slots__ = ("_frames", "columns", "cut", "modified", "origin", "similarity", "spans", "words")

    def __init__(
        self,
        columns: tuple[str, ...],
        *,
        similarity: float | None = None,
        cut: Cut | None = None,
        spans: list[tuple[int, int, int]] | None = None,
    ) -> None:
        self.columns, self.similarity, self.cut = columns, similarity, cut
        self.modified: frozenset[int] = frozenset()
        self.spans = spans or [
            (column, start, end)
            for column, text in enumerate(columns)
            for start, end in cut_spans(text, cut)
        ]
        self.words = [columns[column][start:end] for column, start, end in self.spans]
        self.origin = list(range(len(self.words)))
        # Text before and after each word, made when it is first needed.
        self._frames: dict[int, tuple[str, str]] = {}

    @classmethod
    def of(cls, text: Text, *, cut: Cut | None = None) -> "Document":
        """Make the document of a text or pair."""
        return cls((text,) if isinstance(text, str) else tuple(text), cut=cut)

    def remake(self, columns: tuple[str, ...], similarity: float | None = None) -> "Document":
        """Make a document of other texts whose words are cut as here."""
        return Document(columns, similarity=similarity, cut=self.cut)

    @property
    def text(self) -> Text:
        """The text that a victim gets."""
        return as_text(self.columns)

    def __len__(self) -> int:
        return len(self.words)

    def column_of(self, index: int) -> int:
        """Return the number of the text that contains a word."""
        return self.spans[index][0]

    def with_column(self, column: int, text: str) -> tuple[str, ...]:
        """Return the texts, one of them replaced."""
        return (*self.columns[:column], text, *self.columns[column + 1 :])

    def position(self, original: int) -> int | None:
        """Return the present number of a word of the original; None if it is gone."""
        # Most words are where they were; a search takes time in each of thousands of steps.
        if original < len(self.origin) and self.origin[original] == original:
            return original
        return self.origin.index(original) if original in self.origin else None

    def replace(self, index: int, word: str) -> Candidate:
        """Replace a word.

        A replacement without letters (a comma) removes the space before it.
        """
        return self.replace_by(index, (word,))[0]

    def replace_by(self, index: int, words: Sequence[str]) -> list[Candidate]:
        """Return a candidate for each of several replacements of a word; see `replace`."""
        frame = self._frames.get(index)
        column, start, end = self.spans[index]
        if frame is None:
            text = self.columns[column]
            # Sliced once: a word has hundreds of candidates, and its text may be a page.
            frame = self._frames[index] = (text[:start], text[end:])
        before, after = frame
        texts = [
            before + word + after
            if count_words(word) or hides(word)
            else self._without(index, word)
            for word in words
        ]
        first, rest = self.columns[:column], self.columns[column + 1 :]
        return [
            Candidate(self, index, word, (*first, text, *rest))
            for word, text in zip(words, texts, strict=True)
        ]

    def _without(self, index: int, mark: str) -> str:
        """Replace a word by marks, or by nothing."""
        column, start, end = self.spans[index]
        before, after = self.columns[column][:start], self.columns[column][end:]
        if index == 0:
            after = after.removeprefix(" ")
        elif after or column + 1 < len(self.columns):
            before = before.removesuffix(" ")
        return before + mark + after

    def delete(self, index: int) -> Candidate:
        """Delete a word and one of the spaces around it."""
        column, start, end = self.spans[index]
        text = self.columns[column]
        before, after = text[:start], text[end:]
        # One of the spaces around the word goes with it.
        if index == 0 or not before:
            after = after.removeprefix(" ")
        else:
            before = before.removesuffix(" ")
        return Candidate(self, index, "", self.with_column(column, before + after))

    def insert(self, index: int, word: str, *, after: bool = False) -> Candidate:
        """Insert a word before one of the words, or after it, with a space between them."""
        column, start, end = self.spans[index]
        text = self.columns[column]
        # Scripts that are cut into words have no spaces between them.
        space = "" if self.cut is not None and not text[start:end].isascii() else " "
        at = end if after else start
        joined = f"{space}{word}" if after else f"{word}{space}"
        columns = self.with_column(column, text[:at] + joined + text[at:])
        return Candidate(self, index + after, word, columns, width=0)

    def merge(self, index: int, word: str) -> Candidate:
        """Replace a word, the next one and all between them by one word.

        Raises:
            ValueError: the word is the last one of its text.
        """
        if index + 1 >= len(self) or self.column_of(index + 1) != self.column_of(index):
            msg = f"got word {index} to merge, expected one with another behind it in its text"
            raise ValueError(msg)
        column, start, _ = self.spans[index]
        text = self.columns[column]
        merged = text[:start] + word + text[self.spans[index + 1][2] :]
        return Candidate(self, index, word, self.with_column(column, merged), width=2)

    def rewrite(self, words: Mapping[int, str], original: "Document") -> "Document":
        """Return the document with other words in some places, one for each.

        Args:
            words: the new words by their numbers; each of them a single word.
            original: document of as many words; words that differ from its words are modified.
        """
        parts: list[list[str]] = [[] for _ in self.columns]
        ends = [0] * len(self.columns)
        for index in sorted(words):
            column, start, end = self.spans[index]
            parts[column] += [self.columns[column][ends[column] : start], words[index]]
            ends[column] = end
        document = self.remake(
            tuple(
                "".join(part) + text[end:]
                for part, text, end in zip(parts, self.columns, ends, strict=True)
            )
        )
        document.origin = list(self.origin)
        pairs = enumerate(zip(document.words, original.words, strict=False))
        document.modified = frozenset(i for i, (new, old) in pairs if new != old)
        return document

    def accept(self, candidate: Candidate, *, mark_all: bool = False) -> "Document":
        """Make a document of a candidate of this one.

        With `mark_all`, all words of the replacement count as modified, also those of the former
        text.
        """
        index, removed = candidate.index, candidate.width
        document = Document(
            candidate.columns,
            similarity=candidate.similarity,
            cut=self.cut,
            spans=self._respanned(candidate),
        )
        # Words of the replacement, found by their number.
        count = removed + len(document.words) - len(self.words)
        if count < 0:  # a replacement that joined a neighbour: no word is where it was
            document.origin = [-1] * len(document.words)
            document.modified = frozenset(range(len(document.words)))
            return document
        new = list(range(index, index + count))
        # Of "good" -> "very good", only "very" is new.
        if not mark_all and removed == 1:
            new = [i for i in new if document.words[i] != self.words[index]]
        gone = range(index, index + removed)
        moved = [i if i < index else i + count - removed for i in self.modified if i not in gone]
        document.modified = frozenset((*moved, *new))
        inserted = [-1] * count
        if count and removed:
            # The first new word inherits the number of the replaced one.
            inserted[0] = self.origin[index]
        document.origin = [*self.origin[:index], *inserted, *self.origin[index + removed :]]
        return document

    def _respanned(self, candidate: Candidate) -> list[tuple[int, int, int]] | None:
        """Return the words of a candidate; only those near the change are looked for anew.

        Words that are cut depend on all of their run, and a candidate without a replacement may
        differ anywhere: None has all looked for.
        """
        if self.cut is not None or not candidate.word:
            return None
        spans, column = self.spans, candidate.column
        first, last = candidate.index - 1, candidate.index + candidate.width
        old, new = self.columns[column], candidate.columns[column]
        begin, stop = 0, len(old)
        if first >= 0 and spans[first][0] == column:
            begin = spans[first][1]
            while begin > 0 and old[begin - 1] in _EDGES:
                begin -= 1
        else:
            first += 1
        if last < len(spans) and spans[last][0] == column:
            stop = spans[last][2]
            while stop < len(old) and old[stop] in _EDGES:
                stop += 1
            last += 1
        shift = len(new) - len(old)
        around = [
            (column, begin + start, begin + end)
            for start, end in word_spans(new[begin : stop + shift])
        ]
        rest = spans[last:]
        if shift:
            rest = [(c, a + shift, b + shift) if c == column else (c, a, b) for c, a, b in rest]
        return [*spans[: max(first, 0)], *around, *rest]


def as_text(columns: tuple[str, ...]) -> Text:
    """Return a single text as a string, a pair as a pair."""
    return columns[0] if len(columns) == 1 else (columns[0], columns[1])
