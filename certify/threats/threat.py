"""The base of all threats."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from text.canonical import CanonicalForm
from text.word_settings import WordSettings
from text.word_splitter import WordSplitter

ThreatName = Literal["synonyms", "substitutions", "characters", "words", "l2", "additions"]

_REPLACED = ("synonyms", "substitutions")
"""Threats that replace words one by one."""


@dataclass(frozen=True, kw_only=True)
class Threat:
    """A set of texts around each text.

    Attributes:
        k: largest number of changes; None for any number, where the threat allows that.
        words: the words of a text. A model is certified only if it reads the same.
    """

    name: ClassVar[ThreatName]
    endless: ClassVar[bool] = False
    """True if `k` may be None."""

    k: int | None
    words: WordSettings = field(default=WordSettings())

    def __post_init__(self) -> None:
        """Raise a ValueError for a wrong k, or base forms as words, which several words share."""
        endless = " or all" if self.endless else ""
        if (self.k is None and not self.endless) or (self.k is not None and self.k < 0):
            number = "all" if self.k is None else self.k
            msg = f"got k={number} for {self.name}, expected an integer of at least 0{endless}"
            raise ValueError(msg)
        if self.name in _REPLACED and not self.covers_form:
            msg = (
                f"got words.canonical={self.words.canonical} for {self.name}, expected none of its "
                "options: they may change or join more words than the replaced one, which no list "
                "of replacements covers"
            )
            raise ValueError(msg)
        if self.words.lemmas != "none":
            msg = (
                f"got words.lemmas={self.words.lemmas} for a threat, expected none: a base form "
                "does not say which word is in the text"
            )
            raise ValueError(msg)

    @property
    def covers_form(self) -> bool:
        """True if the changes of words have no other effect by the canonical form."""
        return self.words.canonical == CanonicalForm()

    @property
    def title(self) -> str:
        """Name of the set of texts in names of files and figures."""
        return self.name

    def at(self, k: int | None) -> Self:
        """Return the same threat with another number of changes."""
        return replace(self, k=k)

    def split(self, text: str) -> tuple[str, ...]:
        """Return the words of a text, in lower case."""
        return _split(self.words, text)

    def check_words(self, words: WordSettings | None) -> None:
        """Raise a ValueError unless a model reads the words of the threat; None: subwords."""
        if self.words != words:
            msg = (
                f"got a threat about {self.words} for a model of {words or 'subwords'}, expected "
                "the words of the model"
            )
            raise ValueError(msg)

    def occurrences(self, text: str) -> tuple[str, ...]:
        """Return the words of a text as `reach` takes them."""
        return self.split(text)

    def subject(self, text: str) -> str | None:
        """Return the text that the threat is about; None if it says nothing about this one."""
        return text

    def contains(self, original: str, changed: str) -> bool:
        """Return True if the set around the first text, a subject, has the second one."""
        raise NotImplementedError

    @property
    def content(self) -> Any:
        """JSON value of all that the sets depend on, but for k."""
        words = self.words
        front_end: list[Any] = [] if words.front_end == "none" else [words.front_end]
        if words.canonical != CanonicalForm():
            front_end.append(words.canonical.state())
        return [self.name, words.split, *front_end]

    @property
    def digest(self) -> str:
        """32 hexadecimal digits of the SHA-256 of `content`."""
        text = json.dumps(self.content, sort_keys=True).encode()
        return hashlib.sha256(text).hexdigest()[:32]

    @property
    def statement(self) -> str:
        """One sentence: what may be changed."""
        raise NotImplementedError

    @property
    def condition(self) -> str:
        """The words after "certified" in a sentence: "against one typo in every word"."""
        return f"if {self.statement}"


@lru_cache(maxsize=1 << 12)
def _split(words: WordSettings, text: str) -> tuple[str, ...]:
    return tuple(_splitter(words).split(text))


@lru_cache(maxsize=8)
def _splitter(words: WordSettings) -> WordSplitter:
    return WordSplitter(words)
