"""The base of threats that replace words one by one, and what certifiers read from them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from certify.threats.text_certificate import WorstText
from certify.threats.threat import Threat
from text import WordSettings, WordTokenizer
from text.corrector import Reach
from text.word_splitter import WordSplitter

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Replacements(Threat, ABC):
    """Texts in which at most k words are replaced, each without regard to the others."""

    endless: ClassVar[bool] = True

    k: int | None = None

    @property
    def moves(self) -> bool:
        """True if a word may become two or none, which moves the words after it."""
        return False

    @abstractmethod
    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """Return the ids that words of `occurrences` may get, for each word its own first."""

    @abstractmethod
    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """Return what a word has to become, to get these ids; None if nothing does."""

    def write(self, text: str, words: Sequence[str]) -> WorstText:
        """Write a text with other words: for each word itself, or what replaces it.

        That is none, one or several words.
        """
        parts, end, changes = [], 0, []
        spans = WordSplitter(self.words).spans(text)
        for (start, stop), old, new in zip(spans, self.split(text), words, strict=True):
            parts += [text[end:start], text[start:stop] if old == new else new]
            changes += [] if old == new else [(text[start:stop], new)]
            end = stop
        written = "".join([*parts, text[end:]])
        joined = " ".join(words)
        # A new word may join the punctuation next to it. Then the words are joined by spaces
        # instead.
        fits = self.split(written) == tuple(joined.split())
        return WorstText(written if fits else joined, tuple(changes))

    @classmethod
    def of_model(cls, threat: Threat, words: WordSettings, *, ordered: str | None = None) -> Self:
        """Return a threat against which a model of some words may be certified.

        `ordered` is the name of a model to which the order of words matters; None for others.

        Raises:
            ValueError: another kind of threat, other words, or a threat that moves words.
        """
        if not isinstance(threat, cls) or threat.words != words:
            msg = (
                f"got the threat {threat.title} about {threat.words} for a model of {words}, "
                "expected synonyms or perturbation sets, of the words of the model"
            )
            raise ValueError(msg)
        if ordered is not None and threat.moves:
            msg = (
                f"got {threat.title}, where a word may become two or none, for {ordered}, expected "
                "sets that replace a word by one (typos, pwws, deepwordbug, ...), or WordScores "
                "with window=1"
            )
            raise ValueError(msg)
        return threat


class ReadChoices(NamedTuple):
    """The ids that a model may read in place of the words of some texts.

    Attributes:
        rows: `[B, N]` numbers of words, -1 after a text.
        words: U different words of `Threat.occurrences`.
        ids: `[M, 2]`, see `Reach`.
        starts: `[U + 1]`.
    """

    rows: "Tensor"
    words: Sequence[str]
    ids: "Tensor"
    starts: "Tensor"

    def table(self) -> "Tensor":
        """`[U, S]` results of one id, rows filled up with that of the word itself."""
        import torch

        sizes = self.starts.diff()
        # The number of the word of each result, and the word itself, the first entry of each list.
        owners, own = torch.repeat_interleave(sizes), self.ids[self.starts[:-1], :1]
        # `amax` of no words raises.
        table = own.repeat(1, int(sizes.amax()) if len(own) else 1)
        table[owners, torch.arange(len(owners)) - self.starts[owners]] = self.ids[:, 0]
        return table


class ReadWords:
    """Looks up what a model may read in place of words, for each word once."""

    def __init__(self, threat: Replacements, tokenizer: WordTokenizer) -> None:
        self.threat, self.tokenizer = threat, tokenizer
        self.forget()

    def forget(self) -> None:
        """Drop what has been looked up."""
        self._ids: dict[str, Tensor] = {}
        self._witnesses: dict[tuple[str, tuple[int, ...]], str] = {}

    def __call__(self, texts: Sequence[str]) -> ReadChoices:
        """Return the choices of those words of subjects that the model reads."""
        import torch

        limit = self.tokenizer.max_length
        read = [self.threat.occurrences(text)[:limit] for text in texts]
        self.look_up(word for words in read for word in words)
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(word, len(numbers)) for word in words] for words in read]
        length = max(map(len, rows), default=0)
        padded = [[*row, *[-1] * (length - len(row))] for row in rows]
        ids = [self._ids[word] for word in numbers]
        starts = torch.tensor([0, *map(len, ids)]).cumsum(0)
        # `view` gives a tensor without texts or words its second dimension.
        index = torch.tensor(padded, dtype=torch.int64).view(len(texts), length)
        joined = torch.cat(ids) if ids else torch.zeros(0, 2, dtype=torch.int64)
        return ReadChoices(index, list(numbers), joined, starts)

    def witness(self, word: str, ids: tuple[int, ...]) -> str:
        """Return what a word has to become, to get ids of its list."""
        text = self._witnesses.get((word, ids))
        if text is None:
            text = self.threat.witness(word, ids, self.tokenizer)
            assert text is not None  # each id of a list has one
            self._witnesses[word, ids] = text
        return text

    def results(self, word: str) -> list[tuple[int, ...]]:
        """Return the ids that a word may get, its own first: one id, or two."""
        self.look_up([word])
        return [tuple(i for i in row if i >= 0) for row in self._ids[word].tolist()]

    def look_up(self, words: Iterable[str]) -> None:
        """Look up the words that are new: many at once cost least."""
        import torch

        new = list(dict.fromkeys(word for word in words if word not in self._ids))
        if new:
            ids, starts = self.threat.reach(new, self.tokenizer)
            self._ids |= zip(new, torch.split(ids, starts.diff().tolist()), strict=True)
