"""Rebuilds a tokenizer from the state that a checkpoint carries."""

from collections.abc import Callable, Mapping
from typing import Any

from text.character_tokenizer import CharacterTokenizer
from text.encoded_words import EncodedWords
from text.front_end import FrontEnd
from text.front_end_tokenizer import FrontEndTokenizer
from text.pretrained_tokenizer import PretrainedTokenizer
from text.tokenizer import Tokenizer
from text.window_tokenizer import WindowTokenizer
from text.word_settings import Lemmatizer, WordSettings
from text.word_tokenizer import WordTokenizer


def tokenizer_from_state(
    state: Mapping[str, Any], find: Callable[[WordSettings], Lemmatizer] | None = None
) -> Tokenizer:
    """Rebuild the tokenizer whose `state()` a checkpoint carries, without any network.

    Only a tokenizer with lemmas needs files: those of its lemmatiser, which `find` finds for some
    settings.

    Raises:
        ValueError: the state is of an unknown kind or incomplete, or its lemmatiser is missing.
    """
    kind = state.get("kind")
    try:
        if kind == "word":
            return WordTokenizer.from_state(state, find)
        if kind == "pretrained":
            pretrained = PretrainedTokenizer.from_state(state)
            if "front_end" not in state:
                return pretrained
            own = FrontEnd.from_state(state["front_end"], unknown=pretrained.unk_token)
            return FrontEndTokenizer(pretrained, own)
        if kind == "character":
            return CharacterTokenizer.from_state(state)
        if kind == "windows":
            return WindowTokenizer(tokenizer_from_state(state["inner"], find), state["words"])
        if kind == "encoded":
            inner = tokenizer_from_state(state["inner"], find)
            front_end = None
            if "front_end" in state:
                unknown = inner.unk_token if isinstance(inner, PretrainedTokenizer) else None
                front_end = FrontEnd.from_state(state["front_end"], unknown=unknown)
            return EncodedWords(inner, state["representatives"], front_end)
    except KeyError as error:
        msg = f"got a {kind} tokenizer state without {error}, expected one written by state()"
        raise ValueError(msg) from error
    kinds = "'word', 'pretrained', 'character', 'encoded' or 'windows'"
    msg = f"got a tokenizer state of kind {kind!r}, expected {kinds}"
    raise ValueError(msg)
