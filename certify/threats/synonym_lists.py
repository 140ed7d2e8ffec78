"""Words replaced by those of a list."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self
from unicodedata import combining

from certify.threats.replacements import Replacements
from certify.threats.substitutions import TAG
from certify.threats.threat import ThreatName
from text import WordSettings, WordTokenizer
from text.bounded_files import read_json
from text.corrector import Reach

Lists = Mapping[str, Sequence[str]]
_ROOT = Path(__file__).parents[2]
"""The folder of `configs/`: of the checkout, or of the installed package."""
_BREAK = re.compile(r"<\s*br\s*/?\s*>")
"""A line break of HTML, which the lists of others leave out."""


@dataclass(frozen=True, kw_only=True)
class Synonyms(Replacements):
    """Texts with the same number of words, where at most k words are replaced by listed ones.

    The word itself may always stay, also where its list does not name it. A listed word that no
    text can have as one word (in upper case, "ice cream") is dropped: no text of the set has it.
    Behind a front end "caf\u00e9" is the word "cafe", as a key and in a list.
    Case, spaces and what else does not change the words of a text is free. Words without a list,
    unknown to the model or not, stay as they are.

    Attributes:
        lists: for each word those that may replace it. Or empty, and
        texts: for each text, in words with one space between, the lists of its positions.
    """

    name: ClassVar[ThreatName] = "synonyms"

    lists: Lists
    texts: Mapping[str, Mapping[str, Sequence[str]]]

    @classmethod
    def read(
        cls, path: str | Path, *, k: int | None = None, words: WordSettings = WordSettings()
    ) -> Self:
        """Read a JSON file, also packed (.gz).

        Args:
            path: an object with a list of words for each word; or, for texts and positions, one
                with an object for each text, which has a list for each position, "0" the first. A
                relative path that is not there may name a file that comes with the program.
            k: see `Threat`.
            words: see `Threat`.

        Raises:
            ValueError: no JSON, other JSON than that, or lists of another tokenisation.
        """
        path = lists_file(path)
        content = read_json(path, "an object of lists of words")
        return cls.of(content, name=str(path), k=k, words=words)

    @classmethod
    def of(
        cls,
        content: Any,
        *,
        name: str = "lists",
        k: int | None = None,
        words: WordSettings = WordSettings(),
    ) -> Self:
        """Make a threat from the content of a JSON file, as `read` does; name: for messages."""
        values = list(content.values()) if isinstance(content, dict) else []
        by_text = bool(values) and all(isinstance(value, dict) for value in values)
        for lists in values if by_text else [content]:
            _check_lists(lists, name)
        own, texts = ({}, content) if by_text else (content, {})
        threat = cls(k=k, words=words, lists=own, texts=texts)
        threat._check_tokens(name)
        threat._check_positions(name)
        return threat

    def _check_tokens(self, name: str) -> None:
        """Refuse lists of other tokenisers, with words such as "don't" that texts here split."""
        strange = [word for word in self.lists if self.split(word) != (word,)]
        # Some such words are normal; most of them mean another tokeniser.
        if 2 * len(strange) > len(self.lists):
            msg = (
                f"got {name}, where {len(strange)} of {len(self.lists)} words, as "
                f"{strange[0]!r}, are not one word in lower case for words.split="
                f"{self.words.split}, expected lists of this tokenisation"
            )
            raise ValueError(msg)

    def _check_positions(self, name: str) -> None:
        """Check that each list is about one word, and that each text splits like its tokens."""
        for text, lists in self.texts.items():
            tokens = text.split()
            for position, listed in lists.items():
                fits = position.isdecimal() and int(position) < len(tokens)
                token = tokens[int(position)] if fits else None
                if token is not None and (not listed or self.split(token) == (token,)):
                    continue
                actual = f"only {len(tokens)} words" if token is None else repr(token)
                msg = (
                    f"got {name} with a list for position {position!r} of {text[:60]!r}, which has "
                    f"{actual}, expected lists of one word for words.split={self.words.split}"
                )
                raise ValueError(msg)

    @cached_property
    def _places(self) -> dict[str, str]:
        return {_squeezed(text): text for text in self.texts}

    def subject(self, text: str) -> str | None:
        """Return the text itself, or, with lists for texts, that of the file.

        The two may differ in case, spaces and punctuation, which tokenisers write differently.
        """
        return self._places.get(_squeezed(text)) if self.texts else text

    def candidates(self, text: str) -> list[tuple[str, ...]]:
        """Return the candidates of each word of a subject, the word itself first.

        Raises:
            ValueError: the lists are for texts, and this is none of them.
        """
        if not self.texts:
            return [self.of_word(word) for word in self.split(text)]
        if (lists := self.texts.get(text)) is None:
            msg = f"got {text[:60]!r}, which the lists do not have, expected a text of subject()"
            raise ValueError(msg)
        candidates: list[tuple[str, ...]] = []
        for position, token in enumerate(text.split()):
            # One token of the file may be several words here: those have no list.
            candidates += [(word,) for word in self.split(token)]
            if listed := lists.get(str(position)):
                candidates[-1] = self._with(candidates[-1][0], listed)
        return candidates

    def of_word(self, word: str) -> tuple[str, ...]:
        """Return a word and its candidates, for lists of words."""
        candidates = self._of_words.get(word)
        if candidates is None:
            listed = (*self.lists.get(word, ()), *self._accented.get(word, ()))
            candidates = self._of_words[word] = self._with(word, listed)
        return candidates

    def occurrences(self, text: str) -> tuple[str, ...]:
        """See `Threat`: with lists for texts, a word and its candidates, with `TAG` between."""
        return tuple(map(TAG.join, self.candidates(text))) if self.texts else self.split(text)

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `Replacements`."""
        import torch

        rows: list[int] = []
        starts = [0]
        for word in words:
            # Several candidates may be the unknown word. A dictionary keeps the own id first.
            rows += dict.fromkeys(tokenizer.ids(self._listed(word)))
            starts.append(len(rows))
        first = torch.tensor(rows, dtype=torch.int64)
        # The second column is for sets that split a word in two: -1, as lists do not.
        return Reach(torch.stack([first, torch.full_like(first, -1)], dim=1), torch.tensor(starts))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `Replacements`."""
        listed = self._listed(word)
        pairs = zip(listed, tokenizer.ids(listed), strict=True)
        return next((text for text, index in pairs if (index,) == ids), None)

    def _listed(self, word: str) -> tuple[str, ...]:
        return tuple(word.split(TAG)) if self.texts else self.of_word(word)

    @cached_property
    def _of_words(self) -> dict[str, tuple[str, ...]]:
        return {}

    @cached_property
    def _accented(self) -> Lists:
        """The lists of keys that the model reads as another word: "cafe" of "caf\u00e9"."""
        lists: dict[str, list[str]] = {}
        for key, listed in self.lists.items():
            own = None if key.isascii() else self._read(key)
            if own is not None and own != key:
                lists.setdefault(own, []).extend(listed)
        return lists

    def _read(self, listed: str) -> str | None:
        """Return a listed word as texts have it; None if no text has it as one word."""
        own = self.split(listed)
        if own == (listed,):
            return listed
        # "Film" and "'film" are mistakes of a list, and no words of this tokeniser.
        letters = all(char.isalpha() or combining(char) for char in listed)
        accents = self.words.front_end != "none" and letters and listed == listed.lower()
        return own[0] if accents and len(own) == 1 else None

    def _with(self, word: str, listed: Sequence[str]) -> tuple[str, ...]:
        # A candidate of several words would move the words after it.
        fits = (own for other in listed if (own := self._read(other)) is not None)
        return tuple(dict.fromkeys((word, *fits)))

    def contains(self, original: str, changed: str) -> bool:
        """See `Threat`."""
        candidates, words = self.candidates(original), self.split(changed)
        if len(candidates) != len(words):
            return False
        both = list(zip(candidates, words, strict=True))
        count = sum(allowed[0] != word for allowed, word in both)
        return all(word in allowed for allowed, word in both) and (
            self.k is None or count <= self.k
        )

    @property
    def content(self) -> Any:
        """See `Threat`."""
        return [*super().content, dict(self.lists), {k: dict(v) for k, v in self.texts.items()}]

    @property
    def statement(self) -> str:
        """See `Threat`."""
        number = "any number of" if self.k is None else f"at most {self.k}"
        where = "its position in this text" if self.texts else "it"
        return f"{number} words are replaced, each by one that is listed for {where}"


def lists_file(path: str | Path) -> Path:
    """Return the file that a path names: one that is there, or one that comes with the program."""
    shipped = _ROOT / path
    return shipped if shipped.is_file() and not Path(path).exists() else Path(path)


def _squeezed(text: str) -> str:
    """Remove spaces and punctuation, which tokenisers write differently."""
    return re.sub(r"[\W_]+", "", _BREAK.sub(" ", text.lower()))


def _check_lists(lists: Any, name: str) -> None:
    fits = isinstance(lists, dict) and all(
        isinstance(listed, list) and all(isinstance(word, str) for word in listed)
        for listed in lists.values()
    )
    if not fits or not lists:
        msg = (
            f"got {name} with other JSON, expected an object with a list of words for each word, "
            'or for each text an object with a list for each position: {"good": ["fine"]} or '
            '{"a good film": {"1": ["fine"]}}'
        )
        raise ValueError(msg)
