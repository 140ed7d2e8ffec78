"""Splits texts into lower-case words and locates each of them."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from text.canonical import CanonicalForm
from text.marks import INNER, JOINED, MARKS
from text.word_settings import Lemmatizer, WordSettings

# Alternatives are tried in this order.
_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)*"  # numbers: 1,000.5 12:30
    r"|[^\W\d_]+?(?=n't\b)|n't\b"  # do | n't
    r"|'(?:s|m|d|re|ve|ll)\b"  # the other English clitics
    rf"|\w[\w{MARKS}]*"  # words with their combining marks
    r"|([^\w\s])\1*"  # runs of one punctuation mark (... --), or any other symbol
)
# Finds the same words in a text that keeps its capitals.
_CASED_TOKEN = re.compile(_TOKEN.pattern, re.IGNORECASE)
# NLTK's pattern, and marks that belong to the letter before them.
_ALPHANUMERIC = re.compile(rf"\w[\w{MARKS}]*")
# Applied to the raw text: normalisation (NFC) would make a word depend on its neighbours.
_ASCII = re.compile(r"[A-Za-z0-9]+")
_PATTERNS = {"clitics": _TOKEN, "alphanumeric": _ALPHANUMERIC, "ascii": _ASCII, "joined": JOINED}
_RUN = re.compile(r"\S+|\s+")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'"})


def pattern_of(settings: WordSettings) -> str:
    """Return the regular expression that finds the words in a text.

    Except for `ascii`, it applies to text in NFC and lower case whose apostrophes are "'".
    """
    return _PATTERNS[settings.split].pattern


def split_words(text: str) -> list[str]:
    """Lower-case a text and split it into words, clitics ("do", "n't"), numbers and punctuation.

    Text in Penn Treebank tokens ("does n't", "it 's") is returned unchanged, except that hyphenated
    words are split, so that unseen compounds keep known parts.
    """
    return [match.group() for match in _TOKEN.finditer(_plain(text))]


def _plain(text: str) -> str:
    return _normalise(text).lower()


def _normalise(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(_APOSTROPHES)


def _origins(text: str) -> list[tuple[int, int]]:
    """Return, for each character of `_plain(text)`, the slice of `text` that it comes from."""
    nfc = unicodedata.normalize("NFC", text)
    origins = [(i, i + 1) for i in range(len(text))]
    if nfc != text:
        # NFC joins a letter with the accents that follow it; Korean letters join within a word.
        # The finest pieces that NFC treats independently give the most exact origins.
        for pieces in (_accented(text), [match.span() for match in _RUN.finditer(text)]):
            composed = [unicodedata.normalize("NFC", text[start:end]) for start, end in pieces]
            if "".join(composed) == nfc:
                break
        else:
            pieces, composed = [(0, len(text))], [nfc]
        origins = [p for p, chars in zip(pieces, composed, strict=True) for _ in chars]
    # Lower case may be longer: a capital I with a dot becomes two characters.
    return [origin for origin, char in zip(origins, nfc, strict=True) for _ in char.lower()]


def _accented(text: str) -> list[tuple[int, int]]:
    """Return the slice of each character together with the combining marks that follow it."""
    starts = [i for i, char in enumerate(text) if i == 0 or not unicodedata.combining(char)]
    return list(pairwise([*starts, len(text)]))


class WordSplitter:
    """Splits texts into words, as the settings define them.

    Args:
        settings: definition of a word.
        lemmatizer: finds base forms; required exactly where `settings.lemmas` is not "none".

    Raises:
        ValueError: a lemmatiser is missing or not needed.
    """

    def __init__(self, settings: WordSettings, lemmatizer: Lemmatizer | None = None) -> None:
        if (lemmatizer is None) != (settings.lemmas == "none"):
            kind = "no lemmatiser" if lemmatizer is None else "a lemmatiser"
            msg = f"got {kind} for lemmas={settings.lemmas}, expected one for noun, part_of_speech"
            raise ValueError(msg)
        self.settings, self.lemmatizer = settings, lemmatizer
        self._pattern = _PATTERNS[settings.split]
        self._form = None if settings.front_end == "none" else settings.canonical

    def split(self, text: str) -> list[str]:
        """Return the words of a text, or their base forms."""
        lemmatizer = self.lemmatizer
        if self._form is not None:
            return [match.group() for match in self._pattern.finditer(self._form(text))]
        if self._pattern is _ASCII:
            return [word.lower() for word in _ASCII.findall(text)]
        if lemmatizer is None or not lemmatizer.tags:
            words: list[str] = [match.group() for match in self._pattern.finditer(_plain(text))]
            return words if lemmatizer is None else lemmatizer.lemmas(words, (), ())
        cased = _normalise(text)
        plain = cased.lower()
        matches = list(self._pattern.finditer(plain))
        # The tagger needs capitals and punctuation. If lower case changes the length, positions in
        # the two forms differ: then it gets the lower-case text.
        tokens = list(_CASED_TOKEN.finditer(cased if len(cased) == len(plain) else plain))
        starts = [token.start() for token in tokens]
        return lemmatizer.lemmas(
            [match.group() for match in matches],
            [token.group() for token in tokens],
            [bisect_right(starts, match.start()) - 1 for match in matches],
        )

    def read(self, words: Iterable[str]) -> list[str]:
        """Return words as the model reads them: of joined words without the marks inside."""
        if self._pattern is not JOINED:
            return list(words)
        return [word if word.isalnum() else INNER.sub("", word) for word in words]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each word of `split(text)`, in characters of `text`."""
        if self._form is not None:
            plain, origins = self._form(text), self._form.origins(text)
            matches = [match.span() for match in self._pattern.finditer(plain)]
            return [(origins[start], origins[end - 1] + 1) for start, end in matches]
        if self._pattern is _ASCII:
            return [match.span() for match in _ASCII.finditer(text)]
        matches = [match.span() for match in self._pattern.finditer(_plain(text))]
        places = _origins(text)
        return [(places[start][0], places[end - 1][1]) for start, end in matches]

    def state(self) -> dict[str, Any]:
        """Return plain values for `words_of`; an empty dictionary for the default settings."""
        if self.settings == WordSettings():
            return {}
        digest = None if self.lemmatizer is None else self.lemmatizer.digest
        words = asdict(self.settings)
        words["canonical"] = self.settings.canonical.state()
        # Absent from checkpoints of former versions: certificates compare the state.
        if self.settings.canonical == CanonicalForm():
            del words["canonical"]
        if self.settings.stop_words is None:
            del words["stop_words"]
        return {"words": {**words, "digest": digest}}


def words_of(
    state: Mapping[str, Any], find: Callable[[WordSettings], Lemmatizer] | None
) -> tuple[WordSettings, Lemmatizer | None]:
    """Return the settings of the words in a tokenizer's state, and the lemmatiser that `find` has.

    The state includes the items of `WordSplitter.state`.

    Raises:
        ValueError: the lemmatiser is missing or has other data, or the settings are unknown.
    """
    if "words" not in state:
        return WordSettings(), None
    options = dict(state["words"])
    digest = options.pop("digest")
    try:
        options["canonical"] = CanonicalForm(**options.get("canonical", {}))
        settings = WordSettings(**options)
    except TypeError as error:
        msg = f"got settings of words {sorted(options)}, expected those that this version knows"
        raise ValueError(msg) from error
    if settings.lemmas == "none":
        return settings, None
    if find is None:
        msg = f"got a tokenizer with lemmas={settings.lemmas}, expected a lemmatiser for it"
        raise ValueError(msg)
    lemmatizer = find(settings)
    if lemmatizer.digest != digest:
        msg = (
            f"got a lemmatiser with other data ({lemmatizer.digest}) than the model was trained "
            f"with ({digest}), expected the same: get WordNet and the tagger again with "
            "`python -m steadfast resources wordnet tagger`"
        )
        raise ValueError(msg)
    return settings, lemmatizer
