"""Text added to a text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args

from certify.threats.substitutions import Substitutions, Words
from certify.threats.threat import Threat, ThreatName
from text.canonical import canonical

AdditionKind = Literal["append", "append-glued", "append-lines", "insert-any"]
ADDITIONS: tuple[AdditionKind, ...] = get_args(AdditionKind)
_STATEMENTS: dict[AdditionKind, str] = {
    "append": "any text is added in front and at the end, with white space between",
    "append-glued": "any text is added in front and at the end, also without white space between",
    "append-lines": "any lines are added in front and at the end",
    "insert-any": "any words are inserted anywhere, any number of them",
}


@dataclass(frozen=True, kw_only=True)
class Additions(Threat):
    """Texts that contain a text, whose words may be replaced as well.

    Attributes:
        kind: append: the words of the text follow one another in the new one; append-glued: so do
            those between its first and its last white space; append-lines: the lines of the text
            do, as they are, without those that are empty; insert-any: its words are in the new
            text, in their order.
        changes: perturbation sets, of which the words of the text use at most k; None for none.
        k: number of words that are replaced. Added words do not count.

    Raises:
        ValueError: words that white space does not separate, or sets that depend on parts of speech
            where only a part of the text stays whole.
    """

    name: ClassVar[ThreatName] = "additions"
    endless: ClassVar[bool] = True

    k: int | None = None
    kind: AdditionKind
    changes: Substitutions | None = field(default=None)

    def __post_init__(self) -> None:
        """Check the words, and the sets."""
        super().__post_init__()
        tagged = [part.name for part in (self.changes.sets if self.changes else ()) if part.tags]
        if self.kind == "append-glued" and tagged:
            msg = (
                f"got {tagged[0]} with {self.kind}, expected append: the words that stay whole are "
                "a part of the text, in which they may have other parts of speech"
            )
            raise ValueError(msg)
        if self.kind == "insert-any" and self._joins_letters:
            msg = (
                f"got words.canonical.spaced for {self.kind}, expected words.canonical.spaced="
                "false: an inserted word divides a word whose letters are apart"
            )
            raise ValueError(msg)

    @property
    def title(self) -> str:
        """See `Threat`."""
        return self.kind if self.changes is None else f"{self.kind}+{self.changes.title}"

    def is_blank(self, char: str) -> bool:
        """Return True for a character that the model reads as white space."""
        return (char if self.words.front_end == "none" else canonical(char)).isspace()

    @property
    def _joins_letters(self) -> bool:
        return self.words.front_end != "none" and self.words.canonical.spaced

    def core(self, text: str) -> str:
        """Return the part of a text whose words stay whole, whatever is added."""
        if self.kind == "append-glued":
            # What is added without a blank may join the first or the last word: both are left out.
            blanks = [at for at, char in enumerate(text) if self.is_blank(char)]
            text = text[blanks[0] : blanks[-1]] if blanks else ""
        if not self._joins_letters:
            return text
        # An added letter joins single letters next to it, up to the first longer run.
        ends = [-1, *(at for at, char in enumerate(text) if self.is_blank(char)), len(text)]
        runs = [(start + 1, end) for start, end in pairwise(ends)]
        whole = [run for run in runs if len(self.words.canonical(text[slice(*run)])) > 1]
        return text[whole[0][0] : whole[-1][1]] if whole else ""

    def contains(self, original: str, changed: str) -> bool:
        """See `Threat`."""
        if self.kind == "append-lines" and self.changes is None:
            lines, more = (
                [line for line in text.splitlines() if line.strip()] for text in (original, changed)
            )
            return any(more[at : at + len(lines)] == lines for at in range(len(more) + 1))
        own = self.core(original)
        words = self.split(own) if self.changes is None else self.changes.occurrences(own)
        others = self.split(changed)
        # Text in front shifts the words: they may begin anywhere. `_steps` skips inserted words.
        starts = range(len(others) + 1) if self.kind != "insert-any" else (0,)
        return any(self._fits(words, others[start:]) for start in starts)

    def _fits(self, words: Words, others: Words) -> bool:
        # Least number of replaced words with which the words so far end before others[n].
        costs = {0: 0}
        for word in words:
            costs = dict(self._steps(word, others, costs))
        return any(self.k is None or cost <= self.k for cost in costs.values())

    def _steps(self, word: str, others: Words, costs: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Yield the positions after a word, and the costs so far."""
        least: int | None = None
        for at, other in enumerate(others):
            # Inserted words may be skipped; those of the text follow one another otherwise.
            skipped = least if self.kind == "insert-any" else None
            least = min((c for c in (costs.get(at), skipped) if c is not None), default=None)
            more = None if least is None else self._cost(word, other)
            if least is not None and more is not None:
                yield at + 1, least + more

    def _cost(self, word: str, other: str) -> int | None:
        if self.changes is None:
            return 0 if word == other else None
        steps = (cost for end, cost in self.changes._steps(word, (other,), 0) if end)
        return min(steps, default=None)

    @property
    def content(self) -> Any:
        """See `Threat`."""
        return [*super().content, self.kind, self.changes and self.changes.content]

    @property
    def statement(self) -> str:
        """See `Threat`."""
        added = _STATEMENTS[self.kind]
        return added if self.changes is None else f"{added}; {self.changes.at(self.k).statement}"

    @property
    def condition(self) -> str:
        """See `Threat`."""
        added = {
            "append": "against any text added in front or at the end",
            "append-glued": "against any text added in front or at the end, also without a blank",
            "append-lines": "against any lines added in front or at the end",
            "insert-any": "against any words inserted",
        }[self.kind]
        if self.changes is None:
            return added
        return f"{added}, and {self.changes.at(self.k).condition}"
