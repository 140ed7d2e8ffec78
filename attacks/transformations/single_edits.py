"""All texts that are one edit of a character away from a text.

Source: Abad Rocamora et al., "Revisiting Character-level Adversarial Attacks for Language Models",
2024 (Charmer). A text of n characters has 2 n + 1 positions: position 2 i + 1 is
character i, and position 2 i the blank before it. A character at a blank is an insertion, another
character at a character a replacement, and a blank at a character a deletion.
"""

import string
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from attacks.composition import Job
from attacks.document import Candidate, Document
from attacks.transformations.benign_texts import LabelledTexts

ASCII = "".join(sorted(string.ascii_letters + string.digits + string.punctuation + " "))
"""The characters where there are no texts to learn from."""
_BLANK, _TEST = "", " "
"""No character; and the one that shows how much a position matters."""


@dataclass(frozen=True, kw_only=True)
class SingleEdits:
    """Puts each character, or none, at some positions of a text.

    The `indices` of a job are positions, and no words: those of the second text of a pair follow
    those of the first one. `stage` is not 0, so that pre-constraints are not asked about them.

    Attributes:
        pool: the characters; None: learned from texts.
        size: characters of a learned pool, the most frequent ones; all if None.
    """

    pool: str | None = None
    size: int | None = None

    def learn(self, texts: LabelledTexts) -> Self:
        """Return this with the characters of texts as its pool, if it has none."""
        if self.pool is not None:
            return self
        counts: Counter[str] = Counter()
        for text, _ in texts():
            counts.update(text if isinstance(text, str) else "".join(text))
        # Ties by code: the pool must not depend on the order of the texts.
        frequent = sorted(counts, key=lambda character: (-counts[character], character))
        return replace(self, pool="".join(sorted(frequent[: self.size])) or ASCII)

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`; a ValueError without a pool."""
        if not self.pool:
            msg = "got no characters to insert, expected some: pool=FILE, or texts with characters"
            raise ValueError(msg)
        return [
            [
                edited(job.current, position, character)
                for position in job.indices
                for character in (_BLANK, *self.pool)
            ]
            for job in jobs
        ]


def positions_of(document: Document, column: int) -> range:
    """Return the positions of one of the texts of a document."""
    first = sum(2 * len(text) + 1 for text in document.columns[:column])
    return range(first, first + 2 * len(document.columns[column]) + 1)


def probe(document: Document, position: int) -> Candidate:
    """Put a space at a position; at a space, nothing."""
    space = edited(document, position, _TEST)
    same = space.columns == document.columns
    return edited(document, position, _BLANK) if same else space


def edited(document: Document, position: int, character: str) -> Candidate:
    """Put a character, or none, at a position.

    The candidate names the word at the position, or the one before it.
    """
    column = _column(document, position)
    at, inside = divmod(position - positions_of(document, column).start, 2)
    text = document.columns[column]
    columns = document.with_column(column, text[:at] + character + text[at + inside :])
    word = bisect_right(document.spans, (column, at, len(text))) - 1
    # A text without words, and one that begins with a mark.
    width = int(word >= 0 and document.column_of(word) == column)
    return Candidate(document, max(word, 0), "", columns, width=width)


def _column(document: Document, position: int) -> int:
    columns: Iterator[int] = iter(range(len(document.columns)))
    return next(column for column in columns if position in positions_of(document, column))
