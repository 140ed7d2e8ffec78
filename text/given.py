"""Checks the texts that a caller passes, one or a list; logs the number of truncated texts."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from text.batch import Encoding, Text

log = logging.getLogger(__name__)

_cuts_said: ContextVar[bool] = ContextVar("_cuts_said", default=True)


Texts = Text | list[str] | list[tuple[str, str]] | list[Text]
"""One text or pair, or a list of them."""


def given_texts(value: Any, *, pairs: bool = False) -> list[Text]:
    """Make a list of texts from one text or a list.

    Args:
        value: a text, or a list of texts. A text is a string; of pairs, a tuple of two strings.
        pairs: whether texts are pairs.

    Raises:
        ValueError: anything else, which is ambiguous: a list of two strings may be a pair or not.
    """
    texts = value if isinstance(value, list) else [value]
    wrong = next((i for i, text in enumerate(texts) if not _is_text(text, pairs)), None)
    if wrong is None:
        return list(texts)
    position = f" at place {wrong} of a list" if isinstance(value, list) else ""
    expected = "a tuple of two strings (first, second)" if pairs else "a string"
    msg = (
        f"got {_describe(texts[wrong])}{position}, expected {expected} for each text: give one "
        "text, or a list of texts"
    )
    raise ValueError(msg)


def _is_text(value: Any, pairs: bool) -> bool:
    if not pairs:
        return isinstance(value, str)
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, str) for v in value)


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value).__name__
    if isinstance(value, str):
        return "a single string"
    return f"a {kind} of {len(value)}" if isinstance(value, tuple | list) else f"a {kind}"


def say_cut(encodings: Sequence[Encoding], max_length: int) -> None:
    """Log the number of texts cut to `max_length` tokens, unless inside `cuts_unsaid`."""
    cut = sum(encoding.truncated for encoding in encodings)
    if cut and _cuts_said.get():
        log.warning("%d of %d texts cut to %d tokens", cut, len(encodings), max_length)


@contextmanager
def cuts_unsaid() -> Iterator[None]:
    """Log no truncated texts inside the block: attacks encode a text hundreds of times."""
    token = _cuts_said.set(False)
    try:
        yield
    finally:
        _cuts_said.reset(token)
