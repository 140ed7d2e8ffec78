"""Splits texts into lower-case words, and says where each stands."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from text.marks import MARKS
from text.word_settings import Lemmatizer, WordSettings

# In the order tried: numbers with inner points, commas or colons; a negated verb up to its "n't";
# "n't"; the other English clitics; words with their combining marks; runs of one punctuation mark
# ("...", "--"), or any other symbol.
_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)*"
    r"|[^\W\d_]+?(?=n't\b)|n't\b"
    r"|'(?:s|m|d|re|ve|ll)\b"
    rf"|\w[\w{MARKS}]*"
    r"|([^\w\s])\1*"
)
# The same words in a text whose letters are as they were written.
_WRITTEN = re.compile(_TOKEN.pattern, re.IGNORECASE)
# NLTK's pattern, and marks that belong to the letter before them.
_ALPHANUMERIC = re.compile(rf"\w[\w{MARKS}]*")
# Of the text as it is given: no normalisation, which might look at more than one character.
_ASCII = re.compile(r"[A-Za-z0-9]+")
_PATTERNS = {"clitics": _TOKEN, "alphanumeric": _ALPHANUMERIC, "ascii": _ASCII}
_RUN = re.compile(r"\S+|\s+")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'"})


def pattern_of(settings: WordSettings) -> str:
    """Returns the regular expression that finds the words in a text.

    But for `ascii`, the text has been composed (NFC), its apostrophes are "'", and it is in lower
    case.
    """
    return _PATTERNS[settings.split].pattern


def split_words(text: str) -> list[str]:
    """Lower-case a text and split it into words, clitics ("do", "n't"), numbers and punctuation.

    Text that is already in Penn Treebank tokens ("does n't", "it 's") comes out as it went in, but
    for hyphenated words, which are split so that unseen compounds keep known parts.
    """
    return [match.group() for match in _TOKEN.finditer(_plain(text))]


def split_spans(text: str, pattern: re.Pattern[str] = _TOKEN) -> list[tuple[int, int]]:
    """Start and end of each word of `split_words(text)` in the text as given, in characters.

    Args:
        text: the text.
        pattern: finds the words in its plain form.
    """
    matches = [match.span() for match in pattern.finditer(_plain(text))]
    origins = _origins(text)
    return [(origins[start][0], origins[end - 1][1]) for start, end in matches]


def _plain(text: str) -> str:
    return _written(text).lower()


def _written(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(_APOSTROPHES)


def _origins(text: str) -> list[tuple[int, int]]:
    """Return, for each character of the plain form, the characters that it was made from."""
    nfc = unicodedata.normalize("NFC", text)
    origins = [(i, i + 1) for i in range(len(text))]
    if nfc != text:
        # Letters are drawn together with the accents behind them, and Korean ones within a word.
        for pieces in (_accented(text), [match.span() for match in _RUN.finditer(text)]):
            made = [unicodedata.normalize("NFC", text[start:end]) for start, end in pieces]
            if "".join(made) == nfc:
                break
        else:
            pieces, made = [(0, len(text))], [nfc]
        origins = [p for p, chars in zip(pieces, made, strict=True) for _ in chars]
    # Some letters become two in lower case.
    return [origin for origin, char in zip(origins, nfc, strict=True) for _ in char.lower()]


def _accented(text: str) -> list[tuple[int, int]]:
    """Each character with the combining ones behind it."""
    starts = [i for i, char in enumerate(text) if i == 0 or not unicodedata.combining(char)]
    return list(pairwise([*starts, len(text)]))


class WordSplitter:
    """Splits texts into the words that some settings ask for.

    Args:
        settings: the settings.
        lemmatizer: finds base forms, where the settings ask for them.

    Raises:
        ValueError: a lemmatiser too many or too few.
    """

    def __init__(self, settings: WordSettings, lemmatizer: Lemmatizer | None = None) -> None:
        if (lemmatizer is None) != (settings.lemmas == "none"):
            kind = "no lemmatiser" if lemmatizer is None else "a lemmatiser"
            msg = f"got {kind} for lemmas={settings.lemmas}, expected one for noun, part_of_speech"
            raise ValueError(msg)
        self.settings, self.lemmatizer = settings, lemmatizer
        self._pattern = _PATTERNS[settings.split]

    def split(self, text: str) -> list[str]:
        """Returns the words of a text, or their base forms."""
        lemmatizer = self.lemmatizer
        if self._pattern is _ASCII:
            return [word.lower() for word in _ASCII.findall(text)]
        if lemmatizer is None or not lemmatizer.tags:
            words: list[str] = [match.group() for match in self._pattern.finditer(_plain(text))]
            return words if lemmatizer is None else lemmatizer.lemmas(words, (), ())
        written = _written(text)
        plain = written.lower()
        matches = list(self._pattern.finditer(plain))
        # A tagger wants capitals and punctuation. Where lower case is longer, places would not fit.
        tokens = list(_WRITTEN.finditer(written if len(written) == len(plain) else plain))
        starts = [token.start() for token in tokens]
        return lemmatizer.lemmas(
            [match.group() for match in matches],
            [token.group() for token in tokens],
            [bisect_right(starts, match.start()) - 1 for match in matches],
        )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end of each word of `split(text)` in the text as given."""
        if self._pattern is _ASCII:
            return [match.span() for match in _ASCII.finditer(text)]
        return split_spans(text, self._pattern)

    def state(self) -> dict[str, Any]:
        """Returns what `words_of` needs, as plain values; nothing for the default settings."""
        if self.settings == WordSettings():
            return {}
        digest = None if self.lemmatizer is None else self.lemmatizer.digest
        return {"words": {**asdict(self.settings), "digest": digest}}


def words_of(
    state: Mapping[str, Any], find: Callable[[WordSettings], Lemmatizer] | None
) -> tuple[WordSettings, Lemmatizer | None]:
    """Returns the settings of the words in a tokenizer's state, and their lemmatiser.

    Args:
        state: has what `WordSplitter.state` returned.
        find: finds the lemmatiser of some settings.

    Raises:
        ValueError: the settings ask for a lemmatiser, and none can be found, or one with other
            data; or they are unknown.
    """
    if "words" not in state:
        return WordSettings(), None
    kept = dict(state["words"])
    digest = kept.pop("digest")
    try:
        settings = WordSettings(**kept)
    except TypeError as error:
        msg = f"got settings of words {sorted(kept)}, expected those that this version knows"
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
