"""Rebuilds a tokenizer from the state that a checkpoint carries."""

from collections.abc import Mapping
from typing import Any

from text.pretrained_tokenizer import PretrainedTokenizer
from text.tokenizer import Tokenizer
from text.word_tokenizer import WordTokenizer


def tokenizer_from_state(state: Mapping[str, Any]) -> Tokenizer:
    """Rebuild the tokenizer whose `state()` a checkpoint carries, without any file or network.

    Raises:
        ValueError: the state is of no known kind, or incomplete.
    """
    kind = state.get("kind")
    try:
        if kind == "word":
            return WordTokenizer.from_state(state)
        if kind == "pretrained":
            return PretrainedTokenizer.from_state(state)
    except KeyError as error:
        msg = f"got a {kind} tokenizer state without {error}, expected one written by state()"
        raise ValueError(msg) from error
    msg = f"got a tokenizer state of kind {kind!r}, expected 'word' or 'pretrained'"
    raise ValueError(msg)
