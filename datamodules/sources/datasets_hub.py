"""Corpora from the Hugging Face hub, through the `datasets` library and its local cache."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from datamodules.sources.readers import DataError, Row
from text import hub_reachable

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(__name__)


@contextmanager
def _offline() -> Iterator[None]:
    """Let the library read its cache only."""
    from datasets import config

    # The library reads its environment variable once, at import.
    before = config.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = before


def load(hub_id: str, config: str | None, split: str, *, cached: bool = False) -> "Dataset":
    """Return one split of a corpus; all splits are fetched if they are not in the cache.

    `cached`, for all processes after the one that has fetched it, makes no request to the hub if
    the corpus is in the cache.

    Raises:
        DataError: neither the hub nor the cache has it.
    """
    from datasets import load_dataset

    if cached:
        try:
            with _offline():
                return load_dataset(hub_id, config, split=split)
        except (OSError, ValueError):
            log.debug("%s is not in the local cache", hub_id)
    try:
        with nullcontext() if hub_reachable() else _offline():
            return load_dataset(hub_id, config, split=split)
    except Exception as error:  # the library passes exceptions of several other libraries
        reason = str(error).strip().splitlines()
        msg = (
            f"{type(error).__name__}: {reason[0] if reason else 'no reason given'}"
            if hub_reachable()
            else "the hub cannot be reached, and the local cache does not hold it"
        )
        raise DataError(msg) from error


def rows(dataset: "Dataset", columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a split, numbered from 1; a DataError if a column is missing."""
    missing = [column for column in columns if column not in dataset.column_names]
    if missing:
        msg = f"got columns {dataset.column_names}, expected {missing} among them"
        raise DataError(msg)
    line = 0
    for batch in dataset.select_columns(list(columns)).iter(batch_size=1000):
        for values in zip(*(batch[column] for column in columns), strict=True):
            line += 1
            yield Row(line, dict(zip(columns, values, strict=True)))
