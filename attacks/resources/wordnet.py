"""Reads WordNet's synonyms from its database files.

The files (`index.*`, `data.*`, `*.exc`; the manual page wndb(5WN) describes them) are those that
nltk distributes as `wordnet.zip`. nltk's reader takes seconds to start and needs an index of
languages; a test compares the two over the whole vocabulary.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from attacks.digests import content_digest, digest
from attacks.resources.archive import BrokenFile, member
from attacks.resources.word_forms import PARTS, WordForms

_MARKER = re.compile(r"\((?:a|p|ip)\)$")
"""The position of an adjective; follows its name in the data files."""
_LETTERS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
"""Parts of speech as pointers write them."""


class WordNet(WordForms):
    """Finds words that share a sense with a word, in a folder `wordnet` or in `wordnet.zip`.

    Raises:
        BrokenFile: it is not WordNet's database.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._data = {part: member(self.place, f"data.{part}") for part in PARTS}
        self._synsets: dict[tuple[str, int], tuple[str, ...]] = {}
        self._synonyms: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._antonyms: dict[str, frozenset[str]] = {}

    def about(self) -> dict[str, str]:
        """See `attacks.fingerprint`."""
        return {"digest": self._digest}

    @cached_property
    def _digest(self) -> str:
        lines = (line for part in PARTS for line in self._index[part].values())
        exceptions = content_digest(self._exceptions)
        return digest([*self._data.values(), *lines, exceptions])

    def synonyms(self, word: str, parts: Sequence[str] = PARTS) -> tuple[str, ...]:
        """Return the other names in all senses of a word, of some parts of speech, without phrases.

        The word and its base forms are looked up in any case; names are written as in WordNet
        ("Hollywood").
        """
        key = (word, *parts)
        synonyms = self._synonyms.get(key)
        if synonyms is None:
            lemma = word.lower()
            names: dict[str, None] = {}
            for part in parts:
                for form in self.forms(lemma, part):
                    for offset in self._offsets_of(form, part):
                        names.update(dict.fromkeys(self._names(part, offset)))
            # Phrases are joined by "_".
            synonyms = tuple(name for name in names if name != word and "_" not in name)
            self._synonyms[key] = synonyms
        return synonyms

    def lemmas(self, word: str) -> frozenset[str]:
        """Return the base forms of a word, and the word itself, in lower case."""
        lemma = word.lower()
        return frozenset((lemma, *(form for part in PARTS for form in self.forms(lemma, part))))

    def knows(self, word: str) -> bool:
        """Return True for a word, in any form, that has a meaning here."""
        return any(any(self.forms(word.lower(), part)) for part in PARTS)

    def antonyms(self, word: str) -> frozenset[str]:
        """Return the antonyms of all senses of a word, as base forms in lower case.

        An adjective without one has those of the adjective that it is similar to.
        """
        lemma = word.lower()
        opposites = self._antonyms.get(lemma)
        if opposites is None:
            opposites = frozenset(
                name.lower()
                for part in PARTS
                for form in self.forms(lemma, part)
                for offset in self._offsets_of(form, part)
                for name in self._opposed(part, offset, form)
            )
            self._antonyms[lemma] = opposites
        return opposites

    def _opposed(self, part: str, offset: int, form: str | None) -> list[str]:
        """Return the antonyms of a word of a sense; of all its words if None."""
        names = [name.lower() for name in self._names(part, offset)]
        pointers = self._pointers(part, offset, len(names))
        words: list[str] = []
        for symbol, sense, other, link in pointers:
            if symbol != "!":
                continue
            # wndb(5WN): both 0 if the pointer joins whole senses, else numbers of words from 1.
            source, target = int(link[:2], 16), int(link[2:], 16)
            if form is None or not source or names[source - 1] == form:
                there = self._names(other, sense)
                words += [there[target - 1]] if target else there
        if not words and form is not None and part == "adj":
            for symbol, sense, other, _ in pointers:
                # "&": similar to; "!": antonym (wninput(5WN)).
                if symbol == "&":
                    words += self._opposed(other, sense, None)
        return words

    def _pointers(self, part: str, offset: int, names: int) -> list[tuple[str, int, str, str]]:
        """Return symbol, offset, part of speech and words of each pointer of a sense."""
        fields = self._fields(part, offset)
        # Four fields, then two per word; the count of pointers follows.
        at = 4 + 2 * names
        try:
            return [
                (symbol, int(position), _LETTERS[letter], link)
                for symbol, position, letter, link in zip(
                    *(fields[at + 1 + i : at + 1 + 4 * int(fields[at]) : 4] for i in range(4)),
                    strict=True,
                )
            ]
        except (IndexError, KeyError, ValueError) as error:
            msg = f"{self.place}: got no sense at {offset} of data.{part}; get it again"
            raise BrokenFile(msg) from error

    def _offsets_of(self, form: str, part: str) -> Iterator[int]:
        """Yield the offsets of the senses of a base form."""
        fields = self._index[part][form.encode()].split()
        try:
            yield from [int(offset) for offset in fields[-int(fields[2]) :]]
        except (IndexError, ValueError) as error:
            msg = f"{self.place}: got no senses of {form!r} in index.{part}; get it again"
            raise BrokenFile(msg) from error

    def _fields(self, part: str, offset: int) -> list[str]:
        data = self._data[part]  # the gloss follows "|"
        return data[offset : data.find(b"|", offset)].decode("utf-8", "replace").split(" ")

    def _names(self, part: str, offset: int) -> tuple[str, ...]:
        """Return the words of one sense."""
        key = (part, offset)
        names = self._synsets.get(key)
        if names is None:
            fields = self._fields(part, offset)
            try:
                count = int(fields[3], 16)
                names = tuple(
                    _MARKER.sub("", name) if name.endswith(")") else name
                    for name in fields[4 : 4 + 2 * count : 2]
                )
            except (IndexError, ValueError) as error:
                msg = f"{self.place}: got no sense at {offset} of data.{part}; get it again"
                raise BrokenFile(msg) from error
            self._synsets[key] = names
        return names
