"""Searches for garbage less often, where a program makes none or hardly any."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Run the body without the search for cycles of objects: loading modules, reading rows."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def collect_seldom() -> None:
    """Search for cycles of objects less often, and never in what is loaded by now."""
    # Attacks make many objects, and hardly any in circles. Each full search would also visit all
    # objects of the libraries.
    gc.freeze()
    gc.set_threshold(20_000)
