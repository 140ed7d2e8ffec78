"""Adds words or texts of other classes to a text, which itself does not change.

Sources: Lowd and Meek, "Good Word Attacks on Statistical Spam Filters", 2005 (words that legitimate
mails have more often than spam); Jia and Liang, "Adversarial Examples for Evaluating Reading
Comprehension Systems", 2017 (a text is added).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, Self

from attacks.composition import Job
from attacks.document import Candidate, words_of
from attacks.transformations.variants import changed_text
from text import Text

Side = Literal["front", "end", "both"]
Position = Literal["end", "middle", "apart"]
LabelledTexts = Callable[[], Iterable[tuple[Text, int]]]
_TEXTS = 1000
"""Texts of other classes that are kept, of each class."""


@dataclass(frozen=True, kw_only=True)
class Addition:
    """Adds words or texts of a pool.

    Attributes:
        pool: words or texts for all classes, or those for each gold class; None: learned from
            labelled texts.
    """

    pool: Sequence[str] | Mapping[int, Sequence[str]] | None = None

    @property
    def pool_of_classes(self) -> bool:
        """True if texts with classes make the pool."""
        return not isinstance(self.pool, Sequence)

    def learn(self, texts: LabelledTexts) -> Self:
        """Return this with a pool made of labelled texts, if it has none.

        Raises:
            ValueError: the texts have fewer than two classes.
        """
        if self.pool is not None:
            return self
        by_class: dict[int, list[str]] = {}
        for text, label in texts():
            by_class.setdefault(label, []).append(
                text if isinstance(text, str) else "\n".join(text)
            )
        if len(by_class) < 2:
            msg = (
                f"got texts of {len(by_class)} class(es) to take harmless words from, expected "
                "those of two at least: --attack.pool FILE, with a word or a text on each line"
            )
            raise ValueError(msg)
        return replace(self, pool={label: self._select(by_class, label) for label in by_class})

    def _select(self, by_class: Mapping[int, Sequence[str]], label: int) -> list[str]:
        """Return the pool for texts of a class."""
        # Each subclass chooses: words of the texts, or whole texts.
        raise NotImplementedError

    def _of(self, job: Job) -> Sequence[str]:
        """Return the pool for the text of a job; raise ValueError if there is none for any."""
        if self.pool is None:
            msg = "got no pool of harmless words or texts, expected a file with some: pool=FILE"
            raise ValueError(msg)
        return self.pool.get(job.label, ()) if isinstance(self.pool, Mapping) else self.pool


@dataclass(frozen=True, kw_only=True)
class AddWord(Addition):
    """Adds a word before the first word that may change, or at the end of the text.

    A learned pool has the words that texts of other classes have more often than those of the gold
    class, by the ratio of both shares of texts (Laplace's smoothing), the highest first.

    Attributes:
        side: where words are added.
        size: words of a learned pool.
    """

    side: Side = "end"
    size: int = 100

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [list(self._add(job)) if job.indices else [] for job in jobs]

    def _add(self, job: Job) -> Iterator[Candidate]:
        document, pool = job.current, self._of(job)
        for side in ("front", "end") if self.side == "both" else (self.side,):
            front = side == "front"
            column = document.column_of(min(job.indices) if front else max(job.indices))
            text = document.columns[column]
            # The number that the new word gets: that of the first word of its text, or the next.
            index = [c for c, _, _ in document.spans].index(column)
            index += 0 if front else len([1 for c, _, _ in document.spans if c == column])
            for word in pool:
                new = f"{word} {text}" if front else f"{text} {word}"
                yield Candidate(document, index, word, document.with_column(column, new), width=0)

    def _select(self, by_class: Mapping[int, Sequence[str]], label: int) -> list[str]:
        def count(labels: Iterable[int]) -> tuple[Counter[str], int]:
            texts = [text for i in labels for text in by_class[i]]
            words = (word for text in texts for word in {*words_of(text.lower())})
            return Counter(words), len(texts)

        own, size = count([label])
        foreign, rest = count(i for i in by_class if i != label)

        def ratio(word: str) -> float:
            return ((foreign[word] + 1) / (rest + 2)) / ((own[word] + 1) / (size + 2))

        words = [word for word in foreign if any(map(str.isalpha, word)) and ratio(word) > 1]
        return sorted(words, key=lambda word: (-ratio(word), word))[: self.size]


@dataclass(frozen=True, kw_only=True)
class Surround(Addition):
    """Puts a text into a longer one, made of drawn texts of other classes.

    Stage k of a job proposes the k-th of all pairs of a length and a position, the shortest first.

    Attributes:
        lengths: words that are added.
        positions: of the text: at the `end`, in the `middle`, or cut in two `apart`, with the other
            text between its halves.
    """

    lengths: Sequence[int] = (50, 200, 800)
    positions: Sequence[Position] = ("end", "middle", "apart")

    @property
    def stages(self) -> int:
        """The number of texts that are made of one."""
        return len(self.lengths) * len(self.positions)

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [[self._surround(job)] if job.stage and self._of(job) else [] for job in jobs]

    def _surround(self, job: Job) -> Candidate:
        length, position = divmod(job.stage - 1, len(self.positions))
        filler = _draw(self._of(job), self.lengths[length], job.random)
        column = job.current.column_of(max(job.indices))
        payload = job.current.columns[column].split(" ")
        outer, inner = filler, payload
        if self.positions[position] == "end":
            words = [*filler, *payload]
        else:
            if self.positions[position] == "apart":
                outer, inner = payload, filler
            half = len(outer) // 2
            words = [*outer[:half], *inner, *outer[half:]]
        columns = job.current.with_column(column, " ".join(words))
        return changed_text(job.current, columns, job.indices)

    def _select(self, by_class: Mapping[int, Sequence[str]], label: int) -> list[str]:
        texts = [text for i in sorted(by_class) if i != label for text in by_class[i]]
        # Evenly spaced, not the first ones: files may be sorted.
        return texts[:: -(-len(texts) // _TEXTS)]


def _draw(pool: Sequence[str], length: int, random: Random) -> list[str]:
    """Return so many words of drawn texts."""
    words: list[str] = []
    while len(words) < length:
        words += random.choice(pool).split() or ["."]
    return words[:length]
