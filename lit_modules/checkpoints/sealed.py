"""Checkpoint files with a checksum inside.

A checkpoint of torch is a zip archive, and a zip archive may end with a comment: here, the SHA-256
of all bytes before the comment. Other readers of such files ignore it. Without a second file,
checkpoint and checksum always match, even if a program is killed.
"""

import hashlib
import io
from pathlib import Path
from typing import IO

from typing_extensions import Buffer, override

from text.bounded_files import opened

_PREFIX = b"sha256:"
_COMMENT = len(_PREFIX) + 64
# Bytes of the record that ends a zip archive without comment; the last two are its length.
_RECORD = 22
_CHUNK = 1 << 20


class SealingWriter(io.RawIOBase):
    """Writes a zip archive to a stream and hashes it in the same pass."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self._digest = hashlib.sha256()
        self._tail = b""

    @override
    def write(self, data: Buffer, /) -> int:
        """Write all bytes except the last 22, which may be the record that `seal` changes."""
        # The end record is written last, possibly in several small writes.
        view = memoryview(data).cast("B")
        if len(view) < _RECORD:
            joined = self._tail + bytes(view)
            self._emit(joined[:-_RECORD])
            self._tail = joined[-_RECORD:]
        else:
            self._emit(self._tail)
            self._emit(view[:-_RECORD])
            self._tail = bytes(view[-_RECORD:])
        return len(view)

    def seal(self) -> None:
        """End the archive with its checksum.

        Raises:
            ValueError: the bytes are not a zip archive without comment.
        """
        if not self._tail.startswith(b"PK\5\6") or not self._tail.endswith(b"\0\0"):
            msg = "got bytes that do not end as a zip archive, expected what torch.save writes"
            raise ValueError(msg)
        # The last two bytes of the record are the length of the comment.
        self._emit(self._tail[:-2] + _COMMENT.to_bytes(2, "little"))
        self._stream.write(_PREFIX + self._digest.hexdigest().encode())
        self._tail = b""

    def _emit(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        self._stream.write(data)


def intact(path: Path) -> bool | None:
    """Return True if a file matches its checksum; None for a file without one.

    Raises:
        DataError: it is not a regular file, or may not be read.
    """
    with opened(path) as stream:
        size = stream.seek(0, 2)
        if size < _RECORD + _COMMENT:
            return None
        stream.seek(size - _RECORD - _COMMENT)
        end = stream.read()
        record, comment = end[:_RECORD], end[_RECORD:]
        if not (record.startswith(b"PK\5\6") and comment.startswith(_PREFIX)):
            return None
        stream.seek(0)
        return _digest(stream, size - _COMMENT) == comment[len(_PREFIX) :].decode("latin-1")


def _digest(stream: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    while size > 0 and (chunk := stream.read(min(_CHUNK, size))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()
