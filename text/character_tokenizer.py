"""The tokenizer of language models over characters."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from text.batch import Encoding, Span, Text
from text.tokenizer import Tokenizer
from text.vocabulary import Vocabulary


class CharacterTokenizer(Tokenizer):
    """Each character is a token; `<end>` comes before the first and after the last.

    A text that is too long loses its end, and `<end>` with it.

    Args:
        vocabulary: has the specials `<pad>`, `<unk>`, `<end>` with the ids 0, 1, 2.
        max_length: tokens kept, both `<end>` included; at least 3.

    Raises:
        ValueError: other specials, or a shorter `max_length`.
    """

    specials = ("<pad>", "<unk>", "<end>")

    def __init__(self, vocabulary: Vocabulary, max_length: int = 290) -> None:
        if tuple(vocabulary.specials) != self.specials or vocabulary.unk != "<unk>":
            msg = f"got a vocabulary with specials {vocabulary.specials}, expected {self.specials}"
            raise ValueError(msg)
        if max_length < 3:
            msg = f"got max_length={max_length}, expected at least 3"
            raise ValueError(msg)
        self.vocabulary, self.max_length = vocabulary, max_length
        self.vocab_size = len(vocabulary)
        self.pad_id, self.unk_id, self.end_id = vocabulary(self.specials)

    @classmethod
    def build(cls, texts: Iterable[Text], *, max_length: int = 290) -> "CharacterTokenizer":
        """Make the vocabulary from (training) texts, which are read once."""
        return cls(Vocabulary.build(map(_single, texts), cls.specials), max_length)

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """Encode texts.

        Raises:
            ValueError: a pair of texts.
        """
        encodings = []
        for text in texts:
            ids = [self.end_id, *self.vocabulary(_single(text)), self.end_id]
            length = min(len(ids), self.max_length)
            encodings.append(Encoding(ids[:length], [0] * length, length < len(ids)))
        return encodings

    def find_ids(self, text: str) -> list[int]:
        """Return the ids of the characters of a text, without `<end>`.

        Raises:
            ValueError: a character without an id of its own.
        """
        unknown = sorted({character for character in text if character not in self.vocabulary})
        if unknown:
            alphabet = "".join(self.vocabulary.words())
            msg = f"got a text with {unknown}, expected characters of the training text: "
            msg += repr(alphabet)
            raise ValueError(msg)
        return self.vocabulary(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ones are left out."""
        tokens = map(self.vocabulary.lookup_token, ids)
        return "".join(token for token in tokens if token not in self.specials)

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`."""
        result = []
        for text in texts:
            n = len(_single(text))
            spans = [Span(0, 0, 0), *(Span(0, i, i + 1) for i in range(n)), Span(0, n, n)]
            result.append(spans[: self.max_length])
        return result

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        return {
            "kind": "character",
            "max_length": self.max_length,
            "vocabulary": self.vocabulary.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "CharacterTokenizer":
        """Rebuild from `state()`."""
        return cls(Vocabulary.from_state(state["vocabulary"]), state["max_length"])


def _single(text: Text) -> str:
    if not isinstance(text, str):
        msg = f"got a text of kind {type(text).__name__}, expected single texts of characters"
        raise ValueError(msg)
    return text
