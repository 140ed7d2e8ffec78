"""A tokenizer that first replaces words by representatives, so that most synonyms become equal."""

from collections.abc import Mapping, Sequence
from typing import Any

from text.batch import Encoding, Span, Text
from text.tokenizer import Tokenizer
from text.word_settings import WordSettings
from text.word_splitter import WordSplitter


class EncodedWords(Tokenizer):
    """Replaces each word by its representative, and passes the text to another tokenizer.

    Source: Jones, Jia, Raghunathan, Liang, "Robust Encodings", 2020.

    Args:
        inner: the tokenizer of the encoded text.
        representatives: by word, in lower case; other words are unchanged.

    Raises:
        ValueError: a representative that is not one word, or has a representative of its own.
    """

    def __init__(self, inner: Tokenizer, representatives: Mapping[str, str]) -> None:
        self.splitter = WordSplitter(WordSettings())
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

    def _words(self, text: str) -> list[str]:
        return [self.representatives.get(word, word) for word in self.splitter.split(text)]

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
        spans, end = [], -1
        for word, (start, stop) in zip(self._words(text), self.splitter.spans(text), strict=True):
            end += 1 + len(word)  # representatives are joined by one space
            spans.append((end, start, stop))
        return spans

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        words = dict(self.representatives)
        return {"kind": "encoded", "inner": self.inner.state(), "representatives": words}


def _move(span: Span, words: Sequence[tuple[int, int, int]]) -> Span:
    if span.end == span.start:
        return span
    start, stop = next((start, stop) for end, start, stop in words if span.start < end)
    return Span(span.text, start, stop)
