"""The interface of tokenizers: texts to token ids, and a state for checkpoints."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from text.batch import Encoding, Span, Text, WordEncoding, Words
from text.token_pieces import TokenPiece

if TYPE_CHECKING:
    from text.front_end import FrontEnd


class Tokenizer(ABC):
    """Turns texts into token ids.

    Attributes:
        pad_id: the id written where a padded batch has no token.
        unk_id: the id of a word that has none of its own.
        vocab_size: ids are below this.
        max_length: no encoding is longer.
        front_end: texts with the same `front_end.form` have the same encoding; None without one.
    """

    pad_id: int
    unk_id: int
    vocab_size: int
    max_length: int
    front_end: "FrontEnd | None" = None

    @abstractmethod
    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """Encode texts, pairs or both; a text without a single token becomes the unknown token."""

    def encode_words(self, sentences: Sequence[Words]) -> list[WordEncoding]:
        """Encode sentences of separate words, and locate the first token of each word.

        A word without a single token becomes the unknown token, so that each word that is not cut
        off has a position.

        Raises:
            ValueError: this tokenizer can only split texts into words itself.
        """
        msg = (
            f"got {len(sentences)} sentences of given words for {type(self).__name__}, which "
            "splits texts into words of its own, expected a PretrainedTokenizer: tag with the "
            "tokenizer of a pretrained backbone"
        )
        raise ValueError(msg)

    @abstractmethod
    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """Return the position of each token of `encode(texts)`, in characters of the texts."""

    def token_pieces(self) -> list[TokenPiece | None]:
        """Return the text of each id, None for ids without one.

        Raises:
            ValueError: other tokens than words and pieces of words.
        """
        msg = f"got a {type(self).__name__}, expected a tokenizer of words or pieces of words"
        raise ValueError(msg)

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the state for `tokenizer_from_state`: JSON scalars, lists and dicts only."""
