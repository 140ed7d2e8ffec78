"""The text of each token of a vocabulary."""

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import tokenizers

_UNUSED = re.compile(r"\[unused\d+\]")
"""Names of BERT's ids that have no text."""


class TokenPiece(NamedTuple):
    """The text of a token.

    Attributes:
        text: without the mark of its place.
        begins: True if a word begins with it, False if it continues one.
    """

    text: str
    begins: bool


def read_pieces(backend: "tokenizers.Tokenizer") -> list[TokenPiece | None]:
    """Return the piece of each id; None for ids without text: special, unused or broken ones."""
    vocabulary = backend.get_vocab(with_added_tokens=True)
    added = backend.get_added_tokens_decoder()
    # BERT marks where a word continues, RoBERTa and SentencePiece where it begins.
    continued = any(name.startswith("##") for name in vocabulary)
    mark = next((m for m in "\u0120\u2581" if any(n.startswith(m) for n in vocabulary)), "")
    pieces: list[TokenPiece | None] = [None] * (1 + max(vocabulary.values(), default=-1))
    for name, index in vocabulary.items():
        if (index in added and added[index].special) or _UNUSED.fullmatch(name):
            continue
        if continued or not mark:
            piece = TokenPiece(name.removeprefix("##"), not name.startswith("##"))
        else:
            text = name if backend.decoder is None else backend.decoder.decode([name])
            piece = TokenPiece(text.replace("\u2581", " ").strip(), name.startswith(mark))
        # A byte that is no character alone.
        if piece.text and "\ufffd" not in piece.text:
            pieces[index] = piece
    return pieces
