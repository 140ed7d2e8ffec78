"""The word-level tokenizer of the methods that train their own embedding."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from text.batch import Encoding, Span, Text
from text.marks import MARKS
from text.tokenizer import Tokenizer
from text.vocabulary import Vocabulary

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
_RUN = re.compile(r"\S+|\s+")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'"})


def split_words(text: str) -> list[str]:
    """Lower-case a text and split it into words, clitics ("do", "n't"), numbers and punctuation.

    Text that is already in Penn Treebank tokens ("does n't", "it 's") comes out as it went in, but
    for hyphenated words, which are split so that unseen compounds keep known parts.
    """
    return [match.group() for match in _TOKEN.finditer(_plain(text))]


def split_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each word of `split_words(text)` in the text as given, in characters."""
    matches = [match.span() for match in _TOKEN.finditer(_plain(text))]
    origins = _origins(text)
    return [(origins[start][0], origins[end - 1][1]) for start, end in matches]


def _located(column: int, text: str) -> list[Span]:
    spans = [Span(column, start, end) for start, end in split_spans(text)]
    return spans or [Span(column, 0, 0)]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(_APOSTROPHES).lower()


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


class WordTokenizer(Tokenizer):
    """Lower-cased words with a vocabulary of ours; a pair is `first <sep> second`.

    A text that is too long loses its end; of a pair the longer text loses its end until both fit.

    Args:
        vocabulary: has the specials `<pad>`, `<unk>`, `<sep>` with the ids 0, 1, 2.
        max_length: tokens kept, `<sep>` included; at least 3, the shortest pair.

    Raises:
        ValueError: other specials, or a shorter `max_length`.
    """

    specials = ("<pad>", "<unk>", "<sep>")

    def __init__(self, vocabulary: Vocabulary, max_length: int = 128) -> None:
        if tuple(vocabulary.specials) != self.specials or vocabulary.unk != "<unk>":
            msg = f"got a vocabulary with specials {vocabulary.specials}, expected {self.specials}"
            raise ValueError(msg)
        if max_length < 3:
            msg = f"got max_length={max_length}, expected at least 3"
            raise ValueError(msg)
        self.vocabulary = vocabulary
        self.max_length = max_length
        self.vocab_size = len(vocabulary)
        self.pad_id, self.unk_id, self.sep_id = vocabulary(self.specials)

    @classmethod
    def build(
        cls,
        texts: Iterable[Text],
        *,
        max_length: int = 128,
        min_count: int = 1,
        max_size: int | None = None,
    ) -> "WordTokenizer":
        """Make the vocabulary from (training) texts; pairs count with both their texts.

        Args:
            texts: read once.
            max_length: see the class.
            min_count: words seen less often have no id of their own.
            max_size: ids at most, the three specials included; None for no limit.
        """
        words = (
            split_words(part)
            for text in texts
            for part in ((text,) if isinstance(text, str) else text)
        )
        return cls(
            Vocabulary.build(words, cls.specials, min_count=min_count, max_size=max_size),
            max_length,
        )

    def tokens(self, text: str) -> list[str]:
        """The tokens of one string, before they become ids."""
        return split_words(text)

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """Encode texts, pairs or both."""
        return [
            self._single(text) if isinstance(text, str) else self._pair(*text) for text in texts
        ]

    def _ids(self, text: str) -> list[int]:
        return self.vocabulary(split_words(text)) or [self.unk_id]

    def _single(self, text: str) -> Encoding:
        ids = self._ids(text)
        kept = ids[: self.max_length]
        return Encoding(kept, [0] * len(kept), len(kept) < len(ids))

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`."""
        result = []
        for text in texts:
            if isinstance(text, str):
                result.append(_located(0, text)[: self.max_length])
                continue
            first, second = _located(0, text[0]), _located(1, text[1])
            n_a, n_b = self._kept(len(first), len(second))
            result.append([*first[:n_a], Span(0, 0, 0), *second[:n_b]])
        return result

    def _kept(self, a: int, b: int) -> tuple[int, int]:
        """Return the number of tokens that each text of a pair keeps."""
        room = self.max_length - 1
        # What "drop from the longer one, token by token" comes to: each side is safe up to half
        # the room, and beyond it up to what the other side leaves free.
        n_a = min(a, max(room - room // 2, room - b))
        return n_a, min(b, room - n_a)

    def _pair(self, first: str, second: str) -> Encoding:
        a, b = self._ids(first), self._ids(second)
        n_a, n_b = self._kept(len(a), len(b))
        return Encoding(
            [*a[:n_a], self.sep_id, *b[:n_b]],
            [0] * (n_a + 1) + [1] * n_b,
            n_a < len(a) or n_b < len(b),
        )

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        return {
            "kind": "word",
            "max_length": self.max_length,
            "vocabulary": self.vocabulary.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "WordTokenizer":
        """Rebuild from `state()`."""
        return cls(Vocabulary.from_state(state["vocabulary"]), state["max_length"])
