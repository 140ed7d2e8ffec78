"""A tokenizer behind an encoding of words: synonyms mostly share one form before anything reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from text.batch import Encoding, Span, Text
from text.tokenizer import Tokenizer
from text.word_settings import WordSettings
from text.word_splitter import WordSplitter


class EncodedWords(Tokenizer):
    """Replaces each word by its representative, and hands the text to another tokenizer.

    Source: Jones, Jia, Raghunathan, Liang, "Robust Encodings", 2020.

    Args:
        inner: the tokenizer behind the encoding.
        representatives: by word, in lower case; other words stay.

    Raises:
        ValueError: a representative that is not one word, or has a representative of its own.
    """

    def __init__(self, inner: Tokenizer, representatives: Mapping[str, str]) -> None:
        self.splitter = WordSplitter(WordSettings())
        for one in set(representatives.values()):
            if self.splitter.split(one) != [one] or representatives.get(one, one) != one:
                msg = (
                    f"got an encoding with the representative {one!r}, expected one word in lower "
                    "case that represents itself: `resources encode-words` writes such files"
                )
                raise ValueError(msg)
        self.inner, self.representatives = inner, representatives
        self.pad_id, self.unk_id = inner.pad_id, inner.unk_id
        self.vocab_size, self.max_length = inner.vocab_size, inner.max_length

    def _words(self, text: str) -> list[str]:
        return [self.representatives.get(word, word) for word in self.splitter.split(text)]

    def _encoded(self, text: Text) -> Text:
        if isinstance(text, str):
            return " ".join(self._words(text))
        first, second = text
        return " ".join(self._words(first)), " ".join(self._words(second))

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """See `Tokenizer.encode`."""
        return self.inner.encode([self._encoded(text) for text in texts])

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`: a token lies where the word lies that its form stands for."""
        found = []
        for text, spans in zip(
            texts, self.inner.spans([self._encoded(text) for text in texts]), strict=True
        ):
            columns = (text,) if isinstance(text, str) else text
            places = [self._places(column) for column in columns]
            found.append([_moved(span, places[span.text]) for span in spans])
        return found

    def _places(self, text: str) -> list[tuple[int, int, int]]:
        """For each word where its form ends in the encoded text, and where it lies itself."""
        places, end = [], -1
        for word, (start, stop) in zip(self._words(text), self.splitter.spans(text), strict=True):
            end += 1 + len(word)
            places.append((end, start, stop))
        return places

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        words = dict(self.representatives)
        return {"kind": "encoded", "inner": self.inner.state(), "representatives": words}


def _moved(span: Span, places: Sequence[tuple[int, int, int]]) -> Span:
    if span.end == span.start:
        return span
    start, stop = next((at, to) for end, at, to in places if span.start < end)
    return Span(span.text, start, stop)
