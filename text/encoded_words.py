"""A tokenizer that first replaces words by representatives, so that most synonyms become equal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from text.batch import Encoding, Span, Text
from text.front_end import FrontEnd
from text.front_end_tokenizer import FrontEndTokenizer
from text.tokenizer import Tokenizer
from text.vocabulary import Vocabulary
from text.word_settings import WordSettings
from text.word_splitter import WordSplitter
from text.word_tokenizer import WordTokenizer

NO_END = 2**31 - 1
"""Words of a text that is read to its end."""


class EncodedWords(Tokenizer):
    """Replaces each word by its representative, and passes the words alone to another tokenizer.

    Source: Jones, Jia, Raghunathan, Liang, "Robust Encodings", 2020.

    Args:
        inner: the tokenizer of the encoded text.
        representatives: by word, in lower case; other words are unchanged.
        front_end: corrects the words first; None for none.

    Raises:
        ValueError: a representative that is not one word, or has a representative of its own.
    """

    def __init__(
        self,
        inner: Tokenizer,
        representatives: Mapping[str, str],
        front_end: FrontEnd | None = None,
    ) -> None:
        settings = WordSettings() if front_end is None else front_end.word_settings
        self.splitter, self.front_end = WordSplitter(settings), front_end
        for word in set(representatives.values()):
            if self.splitter.split(word) != [word] or representatives.get(word, word) != word:
                msg = (
                    f"got an encoding with the representative {word!r}, expected one word in lower "
                    "case that represents itself: `resources encode-words` writes such files"
                )
                raise ValueError(msg)
        self.inner, self.representatives = inner, representatives
        self.pad_id, self.unk_id = inner.pad_id, inner.unk_id
        self.vocab_size, self.max_length = inner.vocab_size, inner.max_length

    @classmethod
    def around(cls, tokenizer: Tokenizer) -> "EncodedWords":
        """Return a tokenizer of the words alone, each its own representative."""
        if isinstance(tokenizer, FrontEndTokenizer):
            return cls(tokenizer.inner, {}, tokenizer.front_end)
        return tokenizer if isinstance(tokenizer, cls) else cls(tokenizer, {})

    def word_tokenizer(self) -> WordTokenizer:
        """Return a tokenizer with an id for each word that the representatives are of.

        Raises:
            ValueError: unknown words stay as they are, so that typos lead to any number of words.
        """
        front_end = self.front_end
        if front_end is None or front_end.corrector is None:
            return OpenWords(self.splitter.settings)
        if front_end.unknown is None:
            msg = (
                "got words.front_end=spelling for a model without unknown token, expected one that "
                "has it: typos would lead to any number of unknown words"
            )
            raise ValueError(msg)
        specials = WordTokenizer.specials
        tokens = [*specials, *front_end.corrector.tokens[front_end.corrector.first :]]
        state = {"specials": specials, "unk": "<unk>", "tokens": tokens}
        vocabulary = Vocabulary.from_state({**state, "counts": [0] * len(tokens)})
        return WordTokenizer(vocabulary, NO_END, words=self.splitter.settings)

    def write(self, index: int, words: WordTokenizer) -> str:
        """Return the form of an id of `word_tokenizer`, for the inner tokenizer."""
        if isinstance(words, OpenWords):
            word = words.met[index]
        else:
            assert self.front_end is not None  # see `word_tokenizer`
            token = words.vocabulary.lookup_token(index)
            word = self.front_end.spellings.get(token, token)
            word = self.front_end.unknown or "" if index == words.unk_id else word
        return self.representatives.get(word, word)

    def encode_written(self, texts: Sequence[Sequence[str]]) -> list[Encoding]:
        """Encode texts of words that `write` returned."""
        return self.inner.encode([" ".join(words) for words in texts])

    def form(self, word: str) -> str:
        """Return the form of a word of a text, for the inner tokenizer."""
        written = word if self.front_end is None else self.front_end.write(word)
        return self.representatives.get(written, written)

    def _words(self, text: str) -> list[str]:
        return [self.form(word) for word in self.splitter.split(text)]

    def _replace(self, text: Text) -> Text:
        if isinstance(text, str):
            return " ".join(self._words(text))
        first, second = text
        return " ".join(self._words(first)), " ".join(self._words(second))

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """See `Tokenizer.encode`."""
        return self.inner.encode([self._replace(text) for text in texts])

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`: a token has the span of the word that was replaced."""
        inner = self.inner.spans([self._replace(text) for text in texts])
        result = []
        for text, spans in zip(texts, inner, strict=True):
            columns = (text,) if isinstance(text, str) else text
            words = [self._word_spans(column) for column in columns]
            result.append([_move(span, words[span.text]) for span in spans])
        return result

    def _word_spans(self, text: str) -> list[tuple[int, int, int]]:
        """Return, for each word, its end in the encoded text, and its start and end in `text`."""
        # The first word has no space in front of it.
        spans, end = [], -1
        for word, (start, stop) in zip(self._words(text), self.splitter.spans(text), strict=True):
            end += 1 + len(word)  # representatives are joined by one space
            spans.append((end, start, stop))
        return spans

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        words = dict(self.representatives)
        state = {"kind": "encoded", "inner": self.inner.state(), "representatives": words}
        return state if self.front_end is None else {**state, "front_end": self.front_end.state()}


class OpenWords(WordTokenizer):
    """Gives each word that it meets an id of its own."""

    def __init__(self, words: WordSettings) -> None:
        super().__init__(Vocabulary({}), NO_END, words=words)
        self.met = list(self.specials)
        """The words by their ids."""
        self._numbers = {token: index for index, token in enumerate(self.met)}

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word."""
        ids = []
        for word in words:
            if word not in self._numbers:
                self._numbers[word] = len(self.met)
                self.met.append(word)
            ids.append(self._numbers[word])
        return ids


def _move(span: Span, words: Sequence[tuple[int, int, int]]) -> Span:
    if span.end == span.start:
        return span
    # The first word that ends after the token begins contains it.
    start, stop = next((start, stop) for end, start, stop in words if span.start < end)
    return Span(span.text, start, stop)
