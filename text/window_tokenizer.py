"""A tokenizer that cuts texts into windows, each encoded as a text of its own."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from text.batch import Encoding, Span, Text
from text.tokenizer import Tokenizer

LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
"""The lines of a text, as `str.splitlines` finds them."""
_SENTENCE = re.compile(r"\S(?:.*?[.!?]+(?=\s)|.*\S|)", re.DOTALL)
_WORD = re.compile(r"\S+")


class WindowTokenizer(Tokenizer):
    """Cuts each line of a text into sentences, and long sentences into windows of some words.

    Windows of a line depend on that line alone, so that further lines move none of them. The ids of
    two windows have `border` between them. No text is cut off: a window that is too long for the
    inner tokenizer is halved.

    Args:
        inner: encodes a window.
        words: words of a window, between white space, at most.
    """

    def __init__(self, inner: Tokenizer, words: int) -> None:
        self.inner, self.words = inner, words
        self.pad_id, self.unk_id = inner.pad_id, inner.unk_id
        self.border, self.vocab_size = inner.vocab_size, inner.vocab_size + 1
        self.max_length = 2**31 - 1

    def windows(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each window; none of a text without any character to read."""
        for start, end in self._sentences(text):
            yield from self._fitting(text, start, end)

    def _sentences(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each sentence, or of its parts of `words` words."""
        for line in LINE.finditer(text):
            for sentence in _SENTENCE.finditer(text, *line.span()):
                words = [word.span() for word in _WORD.finditer(text, *sentence.span())]
                for at in range(0, len(words), self.words):
                    part = words[at : at + self.words]
                    yield part[0][0], part[-1][1]

    def _fitting(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        (encoding,) = self.inner.encode([text[start:end]])
        if not encoding.truncated or end - start < 2:
            yield start, end
            return
        middle = (start + end) // 2
        # Between two words if there are any.
        blanks = [m.start() for m in re.finditer(r"\s", text[start:end])]
        if blanks:
            middle = start + min(blanks, key=lambda at: abs(at - (end - start) // 2)) + 1
        yield from self._fitting(text, start, middle)
        yield from self._fitting(text, middle, end)

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """See `Tokenizer.encode`.

        Raises:
            ValueError: pairs of texts.
        """
        cuts = []
        for text in texts:
            if not isinstance(text, str):
                msg = "got pairs of texts for windows, expected single texts"
                raise ValueError(msg)
            cuts.append((text, list(self._sentences(text))))
        # The changed texts of an attack share nearly all sentences: each is read once.
        different = list(dict.fromkeys(text[s:e] for text, spans in cuts for s, e in spans))
        whole = dict(zip(different, self.inner.encode(different), strict=True))
        result = []
        for text, spans in cuts:
            parts: list[Encoding] = []
            for start, end in spans:
                encoding = whole[text[start:end]]
                fits = not encoding.truncated
                parts += [encoding] if fits else self._encode_halves(text, start, end)
            parts = parts or self.inner.encode([""])
            ids = parts[0].input_ids
            for part in parts[1:]:
                ids = [*ids, self.border, *part.input_ids]
            result.append(Encoding(ids, [0] * len(ids)))
        return result

    def _encode_halves(self, text: str, start: int, end: int) -> list[Encoding]:
        return self.inner.encode([text[s:e] for s, e in self._fitting(text, start, end)])

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`; a border has the span of no character."""
        result = []
        for text in texts:
            assert isinstance(text, str)  # `encode` refuses pairs
            spans: list[Span] = []
            for start, end in list(self.windows(text)) or [(0, 0)]:
                if spans:
                    spans.append(Span(0, start, start))
                (own,) = self.inner.spans([text[start:end]])
                spans += [Span(0, start + s, start + e) for _, s, e in own]
            result.append(spans)
        return result

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        return {"kind": "windows", "inner": self.inner.state(), "words": self.words}
