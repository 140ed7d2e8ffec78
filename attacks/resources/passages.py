"""The part of a document around one of its words."""

from typing import NamedTuple

import numpy as np

from attacks.document import Document


class Passage(NamedTuple):
    """One text of a document, or all of them as one.

    Attributes:
        text: text of the passage.
        spans: start and end of its words.
        first: number of the first of them in the document.
    """

    text: str
    spans: list[tuple[int, int]]
    first: int

    def place(self, index: int) -> int:
        """Return the place of a word by its number in the document; the nearest if it has none."""
        return min(max(index - self.first, 0), len(self.spans) - 1)

    def around(self, index: int, window: int | None, *, word: str | None = None) -> str:
        """Return `window` words around one, with another word in its place if given.

        The window is clipped to the first or last words; without one, and for a text without words,
        it is the whole text.
        """
        if window is None or not self.spans:
            return self.text
        position = self.place(index)
        # The word in the middle, as far as the ends of the text allow.
        start = max(min(position - (window - 1) // 2, len(self.spans) - window), 0)
        begin, end = self.spans[start][0], self.spans[min(start + window, len(self.spans)) - 1][1]
        if word is None:
            return self.text[begin:end]
        old = self.spans[position]
        return self.text[begin : old[0]] + word + self.text[old[1] : end]


class Passages:
    """Makes the passages of a round's documents, each once.

    Args:
        joined: all texts of a document as one, a line each, as the reference has it.
    """

    def __init__(self, *, joined: bool) -> None:
        self._joined = joined
        self._made: dict[tuple[int, int], tuple[Document, Passage]] = {}

    def of(self, document: Document, column: int) -> Passage:
        """Return the passage of one text of a document, or of all."""
        key = (id(document), 0 if self._joined else column)
        if key not in self._made:  # the document is kept with it, so that its id stays its own
            self._made[key] = document, self._make(document, column)
        return self._made[key][1]

    def _make(self, document: Document, column: int) -> Passage:
        if self._joined:
            starts = np.cumsum([0, *(len(text) + 1 for text in document.columns)]).tolist()
            spans = [(starts[c] + start, starts[c] + end) for c, start, end in document.spans]
            return Passage("\n".join(document.columns), spans, 0)
        spans = [(start, end) for c, start, end in document.spans if c == column]
        first = sum(c < column for c, _, _ in document.spans)
        return Passage(document.columns[column], spans, first)
