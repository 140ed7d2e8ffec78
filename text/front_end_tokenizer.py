"""A tokenizer that reads texts after a front end."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from text.batch import Encoding, Span, Text, WordEncoding, Words
from text.front_end import FrontEnd
from text.pretrained_tokenizer import PretrainedTokenizer
from text.token_pieces import TokenPiece
from text.tokenizer import Tokenizer
from text.word_settings import FrontEndSettings


class FrontEndTokenizer(Tokenizer):
    """Passes texts through a front end, and then to another tokenizer.

    Args:
        inner: the tokenizer of the texts that the model reads.
        front_end: see `Tokenizer`.

    Raises:
        ValueError: the text of an unknown word does not become the unknown token.
    """

    front_end: FrontEnd

    def __init__(self, inner: Tokenizer, front_end: FrontEnd) -> None:
        self.inner, self.front_end = inner, front_end
        self.pad_id, self.unk_id = inner.pad_id, inner.unk_id
        self.vocab_size, self.max_length = inner.vocab_size, inner.max_length
        unknown = front_end.unknown or ""
        if front_end.corrector and self.unk_id not in inner.encode([unknown])[0].input_ids:
            msg = (
                f"got words.front_end=spelling for a tokenizer without unknown token ({unknown!r}),"
                " expected words.front_end=canonical"
            )
            raise ValueError(msg)

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """See `Tokenizer.encode`."""
        return self.inner.encode([self.front_end.read(text) for text in texts])

    def encode_words(self, sentences: Sequence[Words]) -> list[WordEncoding]:
        """Refuse separate words: the front end may join or remove them.

        Raises:
            ValueError: always.
        """
        msg = (
            f"got {len(sentences)} sentences of separate words for words.front_end="
            f"{self.front_end.kind}, expected words.front_end=none for tagging"
        )
        raise ValueError(msg)

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`: a token of a corrected word has the span of the word."""
        inner = self.inner.spans([self.front_end.read(text) for text in texts])
        return [self.front_end.locate(text, row) for text, row in zip(texts, inner, strict=True)]

    def token_pieces(self) -> list[TokenPiece | None]:
        """See `Tokenizer.token_pieces`."""
        return self.inner.token_pieces()

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`: that of the inner tokenizer, with the front end."""
        return {**self.inner.state(), "front_end": self.front_end.state()}


def build_with_front_end(
    texts: Iterable[Text],
    settings: FrontEndSettings,
    min_count: int,
    build: Callable[[Iterable[Text]], PretrainedTokenizer],
) -> Tokenizer:
    """Return a pretrained tokenizer, made by `build`, with the front end of the settings, if any.

    The words of the texts are the vocabulary of a corrector; those rarer than `min_count` are
    unknown.

    Raises:
        ValueError: see `FrontEnd.build` and `FrontEndTokenizer`.
    """
    if settings.front_end == "none":
        return build(texts)
    texts = list(texts)
    canonical = FrontEnd(settings.canonical)
    inner = build(map(canonical.read, texts))
    front_end = FrontEnd.build(texts, settings, min_count=min_count, unknown=inner.unk_token)
    return FrontEndTokenizer(inner, front_end)
