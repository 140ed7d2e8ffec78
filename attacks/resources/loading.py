"""Loads models of `transformers` without its warnings and bars."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Silences warnings and bars of the library inside the context."""
    from transformers.utils import logging as library

    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity(logging.ERROR)
    library.disable_progress_bar()  # type: ignore[no-untyped-call] # theirs
    try:
        yield
    finally:
        library.set_verbosity(level)
        if bars:
            library.enable_progress_bar()  # type: ignore[no-untyped-call] # theirs
