"""Silences `transformers`, whose warnings and bars would mix with our own output."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings and progress bars of `transformers` inside the context."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call] # theirs
    logging.disable_progress_bar()  # type: ignore[no-untyped-call] # theirs
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call] # theirs
