"""SHA-256 digests of files and contents."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from text.bounded_files import opened

LENGTH = 32
"""Hexadecimal digits that name a content."""
SHORT = 12
"""Hexadecimal digits of a digest in names of folders and in lines of records."""
_BUFFER = 1 << 16
"""Bytes that are digested at once."""


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits.

    Raises:
        DataError: not a regular file, or not readable.
    """
    with opened(Path(path)) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(parts: Iterable[str | bytes]) -> str:
    """Return the first `LENGTH` digits of the SHA-256 of several contents in their order."""
    state, buffer = hashlib.sha256(), bytearray()
    for part in parts:
        # A text from a JSON file may have single surrogates, which UTF-8 refuses.
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        # The length keeps ["ab", "c"] and ["a", "bc"] apart.
        buffer += b"%d " % len(content)
        buffer += content
        # WordNet has 150,000 short lines: one update for many of them.
        if len(buffer) > _BUFFER:
            state.update(buffer)
            buffer.clear()
    state.update(buffer)
    return state.hexdigest()[:LENGTH]


def content_digest(content: Any) -> str:
    """Return the `digest` of a JSON value."""
    return digest([json.dumps(content, sort_keys=True)])
