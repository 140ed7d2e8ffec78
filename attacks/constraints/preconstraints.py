"""Pre-constraints: they select the words that may be replaced."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from attacks.document import Document

ATTACKED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    # Entailment: the premise is given.
    ("premise", "hypothesis"): ("hypothesis",),
    # A sentence answers a question or not: the question is given.
    ("question", "sentence"): ("sentence",),
}
"""The texts of a pair that attacks rewrite, by the names of its columns; both texts of all other
pairs."""

REFERENCE: Mapping[tuple[str, ...], tuple[str, ...]] = {("premise", "hypothesis"): ("hypothesis",)}
"""`ATTACKED` of the reference's TextFooler and A2T; its other recipes rewrite all texts."""


@dataclass(frozen=True, slots=True)
class RepeatModification:
    """Replaces no word twice."""

    def allowed(self, document: Document, *, columns: Sequence[str]) -> set[int]:
        """See `PreConstraint`."""
        return set(range(len(document))) - document.modified


@dataclass(frozen=True)
class StopWords:
    """Keeps the words of a list, which carry grammar and little meaning.

    Attributes:
        words: the list.
        ignore_case: "The" is "the"; the reference tells them apart, and replaces the first word of
            many a sentence.
    """

    words: Iterable[str]
    ignore_case: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        """Make a set of the words."""
        words = (word.lower() for word in self.words) if self.ignore_case else self.words
        object.__setattr__(self, "words", frozenset(words))

    def allowed(self, document: Document, *, columns: Sequence[str]) -> set[int]:
        """See `PreConstraint`."""
        stop: frozenset[str] = self.words  # type: ignore[assignment] # made so above
        if self.ignore_case:
            return {i for i, word in enumerate(document.words) if word.lower() not in stop}
        return {i for i, word in enumerate(document.words) if word not in stop}


@dataclass(frozen=True, slots=True)
class WordLength:
    """Replaces only words of some length.

    Attributes:
        minimum: characters.
    """

    minimum: int

    def allowed(self, document: Document, *, columns: Sequence[str]) -> set[int]:
        """See `PreConstraint`."""
        return {i for i, word in enumerate(document.words) if len(word) >= self.minimum}


@dataclass(frozen=True, slots=True)
class MaxModificationRate:
    """Replaces only a share of the words.

    Attributes:
        rate: share between 0 and 1; the number of words is rounded up.
        minimum: so many may be replaced in any case.
    """

    rate: float
    minimum: int = 1

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 0 <= self.rate <= 1 or self.minimum < 0:
            msg = (
                f"got rate={self.rate}, minimum={self.minimum}, expected a rate between 0 and 1 "
                "and a minimum of at least 0"
            )
            raise ValueError(msg)

    def allowed(self, document: Document, *, columns: Sequence[str]) -> Iterable[int]:
        """See `PreConstraint`."""
        if len(document.modified) >= self._most(document):
            return set()
        return set(range(len(document)))

    def admits(self, original: Document, changed: Document) -> bool:
        """Return True if few enough words of a text are replaced; see `Context.admits`."""
        return len(changed.modified) <= self._most(changed)

    def _most(self, document: Document) -> int:
        # At least `minimum` words, or short texts could not be attacked.
        return max(math.ceil(len(document) * self.rate), self.minimum)


@dataclass(frozen=True, slots=True)
class Columns:
    """Rewrites only some texts of a pair.

    Attributes:
        names: these and no others; if None, those that `tasks` has for the columns of the corpus,
            and all where it has nothing.
        tasks: the texts that may be rewritten, by the names of the columns.
    """

    names: Sequence[str] | None = None
    tasks: Mapping[tuple[str, ...], Sequence[str]] = field(
        default_factory=lambda: ATTACKED, kw_only=True
    )

    def allowed(self, document: Document, *, columns: Sequence[str]) -> Iterable[int]:
        """See `PreConstraint`.

        Raises:
            ValueError: a name that no column has.
        """
        names = self.tasks.get(tuple(columns), columns) if self.names is None else self.names
        if unknown := [name for name in names if name not in columns]:
            msg = f"got columns {unknown} to rewrite, expected some of {list(columns)}"
            raise ValueError(msg)
        # All texts may be rewritten.
        if len(names) == len(columns):
            return set(range(len(document)))
        open_to = {i for i, name in enumerate(columns) if name in names}
        return {i for i in range(len(document)) if document.column_of(i) in open_to}
