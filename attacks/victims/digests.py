"""Digests: what tells files and contents from others."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attacks.resources.archive import BrokenFile

_LENGTH = 32
"""Hexadecimal digits of SHA-256 that are kept."""


def file_digest(path: Path) -> str:
    """The first 32 hexadecimal digits of a file's SHA-256.

    Raises:
        BrokenFile: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:_LENGTH]
    except OSError as error:
        msg = f"{path}: could not be read ({error.strerror or error})"
        raise BrokenFile(msg) from error


def digest(parts: Iterable[str | bytes]) -> str:
    """The same of several contents, one after the other."""
    found = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(f"{len(content)} ".encode())
        found.update(content)
    return found.hexdigest()[:_LENGTH]


def content_digest(content: Any) -> str:
    """The same of what can be written as JSON."""
    return digest([json.dumps(content, sort_keys=True)])
