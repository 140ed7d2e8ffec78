"""The word-level tokenizer of the methods that train their own embedding."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from text.batch import Encoding, Span, Text
from text.corrector import Corrector
from text.front_end import FrontEnd
from text.token_pieces import TokenPiece
from text.tokenizer import Tokenizer
from text.vocabulary import Vocabulary
from text.word_settings import Lemmatizer, WordSettings
from text.word_splitter import WordSplitter, words_of


class WordTokenizer(Tokenizer):
    """Lower-cased words with their own vocabulary; a pair is `first <sep> second`.

    A text that is too long loses its end; of a pair the longer text loses its end until both fit.

    Args:
        vocabulary: has the specials `<pad>`, `<unk>`, `<sep>` with the ids 0, 1, 2.
        max_length: tokens kept, `<sep>` included; at least 3, the shortest pair.
        words: settings of the words of a text.
        lemmatizer: finds base forms; required exactly where `words.lemmas` is not "none".

    Raises:
        ValueError: other specials, a shorter `max_length`, or see `WordSplitter`.
    """

    specials = ("<pad>", "<unk>", "<sep>")

    def __init__(
        self,
        vocabulary: Vocabulary,
        max_length: int = 128,
        *,
        words: WordSettings = WordSettings(),
        lemmatizer: Lemmatizer | None = None,
    ) -> None:
        if tuple(vocabulary.specials) != self.specials or vocabulary.unk != "<unk>":
            msg = f"got a vocabulary with specials {vocabulary.specials}, expected {self.specials}"
            raise ValueError(msg)
        if max_length < 3:
            msg = f"got max_length={max_length}, expected at least 3"
            raise ValueError(msg)
        self.splitter = WordSplitter(words, lemmatizer)
        self.vocabulary = vocabulary
        self.max_length = max_length
        self.vocab_size = len(vocabulary)
        self.pad_id, self.unk_id, self.sep_id = vocabulary(self.specials)
        if words.front_end != "none":
            corrector = None
            if words.front_end == "spelling":
                first = len(self.specials)
                corrector = Corrector(
                    vocabulary.get_itos(), first=first, unknown=self.unk_id, avoid=words.uncorrected
                )
            self.front_end = FrontEnd(words.canonical, corrector)

    @classmethod
    def build(
        cls,
        texts: Iterable[Text],
        *,
        max_length: int = 128,
        min_count: int = 1,
        max_size: int | None = None,
        words: WordSettings = WordSettings(),
        lemmatizer: Lemmatizer | None = None,
    ) -> "WordTokenizer":
        """Make the vocabulary from (training) texts, read once; pairs count with both their texts.

        `min_count` and `max_size` are those of `Vocabulary`, the others those of the class.
        """
        splitter = WordSplitter(words, lemmatizer)
        split = (
            splitter.read(splitter.split(part))
            for text in texts
            for part in ((text,) if isinstance(text, str) else text)
        )
        return cls(
            Vocabulary.build(split, cls.specials, min_count=min_count, max_size=max_size),
            max_length,
            words=words,
            lemmatizer=lemmatizer,
        )

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of one string, before they become ids."""
        return self.splitter.split(text)

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """Encode texts, pairs or both."""
        return [
            self._single(text) if isinstance(text, str) else self._pair(*text) for text in texts
        ]

    @property
    def corrector(self) -> Corrector:
        """The corrector of the words that the vocabulary lacks.

        Raises:
            ValueError: the front end corrects nothing.
        """
        corrector = None if self.front_end is None else self.front_end.corrector
        if corrector is None:
            front_end = self.splitter.settings.front_end
            msg = f"got words.front_end={front_end}, expected spelling for a corrector"
            raise ValueError(msg)
        return corrector

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word of a text, after the front end."""
        read = self.splitter.read(words)
        ids = self.vocabulary(read)
        if self.front_end is not None and self.front_end.corrector is not None:
            for position, index in enumerate(ids):
                if index == self.unk_id:
                    ids[position] = self.front_end.id_of(read[position])
        return ids

    def _ids(self, text: str) -> list[int]:
        # A text without words is one unknown token: a mean over no token would be NaN.
        return self.ids(self.tokens(text)) or [self.unk_id]

    def _located(self, column: int, text: str) -> list[Span]:
        spans = [Span(column, start, end) for start, end in self.splitter.spans(text)]
        # As many spans as `_ids` has tokens.
        return spans or [Span(column, 0, 0)]

    def _single(self, text: str) -> Encoding:
        ids = self._ids(text)
        length = min(len(ids), self.max_length)
        return Encoding(ids[:length], [0] * length, length < len(ids))

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`."""
        result = []
        for text in texts:
            if isinstance(text, str):
                result.append(self._located(0, text)[: self.max_length])
                continue
            first, second = self._located(0, text[0]), self._located(1, text[1])
            n_a, n_b = self._truncate(len(first), len(second))
            result.append([*first[:n_a], Span(0, 0, 0), *second[:n_b]])
        return result

    def _truncate(self, a: int, b: int) -> tuple[int, int]:
        """Return the number of tokens that each text of a pair keeps."""
        room = self.max_length - 1  # one token is <sep>
        # Closed form of "drop tokens from the longer text, one by one": each text is sure of half
        # the room, and of all that the other text does not need.
        n_a = min(a, max(room - room // 2, room - b))
        return n_a, min(b, room - n_a)

    def _pair(self, first: str, second: str) -> Encoding:
        a, b = self._ids(first), self._ids(second)
        n_a, n_b = self._truncate(len(a), len(b))
        return Encoding(
            [*a[:n_a], self.sep_id, *b[:n_b]],
            [0] * (n_a + 1) + [1] * n_b,
            n_a < len(a) or n_b < len(b),
        )

    def token_pieces(self) -> list[TokenPiece | None]:
        """See `Tokenizer.token_pieces`."""
        words = (TokenPiece(word, True) for word in self.vocabulary.words())
        return [*(None for _ in self.specials), *words]

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        return {
            "kind": "word",
            "max_length": self.max_length,
            "vocabulary": self.vocabulary.state(),
            **self.splitter.state(),
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], find: Callable[[WordSettings], Lemmatizer] | None = None
    ) -> "WordTokenizer":
        """Rebuild from `state()`; `find` finds the lemmatiser for some settings.

        Raises:
            ValueError: see `words_of`.
        """
        words, lemmatizer = words_of(state, find)
        vocabulary = Vocabulary.from_state(state["vocabulary"])
        return cls(vocabulary, state["max_length"], words=words, lemmatizer=lemmatizer)
