"""SHA-256 digests of files and contents."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from text.bounded_files import opened

LENGTH = 32
"""Hexadecimal digits that name a content."""


def file_digest(path: str | Path) -> str:
    """Returns the SHA-256 of a file, 64 hexadecimal digits.

    Raises:
        DataError: it is no regular file, or may not be read.
    """
    with opened(Path(path)) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(parts: Iterable[str | bytes]) -> str:
    """Returns the first `LENGTH` digits of the SHA-256 of several contents in their order."""
    found = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(f"{len(content)} ".encode())
        found.update(content)
    return found.hexdigest()[:LENGTH]


def content_digest(content: Any) -> str:
    """Returns the `digest` of a JSON value."""
    return digest([json.dumps(content, sort_keys=True)])
