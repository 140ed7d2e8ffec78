"""Opening files of a data directory that may come from anywhere: regular ones, within limits."""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

LINE_LIMIT = 16 * 2**20
"""Bytes of the longest line, and of the longest text: a novel has 3 million characters."""
EXPANSION = 50
"""Times that a packed file may grow: gzip makes text 2 to 5 times smaller, zeros 1,000 times."""

BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
"""The errors of reading a file that is not compressed as its name says, or ends too early."""

ROW = 64
"""Bytes counted for each row besides its own: objects of short rows take far more memory."""


class DataError(ValueError):
    """Data that cannot be used; the message names the file, and the line where there is one."""


def brief(value: Any, length: int = 200) -> str:
    """Return the `repr` of a value, without control characters, cut to a length for a message."""
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}... ({len(text):,} characters)"


def kind_of(path: Path) -> str | None:
    """Return the kind of a path, links followed: `file`, another word, or None if it is absent."""
    try:
        mode = path.stat().st_mode
    except OSError:
        # A link to nowhere, or into a folder that is closed to us.
        return "a broken link" if path.is_symlink() else None
    return "file" if stat.S_ISREG(mode) else _other(mode)


def _other(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "no regular file")


def refuse(path: Path, kind: str) -> DataError:
    """The error for what is no regular file: reading a pipe or a device may never end."""
    return DataError(f"got {path}, which is {kind}, expected a regular file: remove or replace it")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read; anything else is refused before a byte of it is asked for.

    Raises:
        DataError: it is no regular file.
    """
    kind = kind_of(path)
    if kind != "file":
        raise refuse(path, kind or "absent")
    # Another file may have taken the place since: opening a pipe must not wait for its other end.
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise refuse(path, _other(mode))
        yield file


def allowance(file: BinaryIO) -> int:
    """Bytes that a packed file may grow to.

    Small ones may be as long as a line whatever they were packed from.
    """
    return max(LINE_LIMIT, EXPANSION * os.fstat(file.fileno()).st_size)


def too_large(path: Path, place: str, limit: int) -> DataError:
    """The error for a file that grows beyond its allowance."""
    return DataError(
        f"{path}, {place}: got what would take more than {limit:,} bytes of memory from a file "
        f"of {path.stat().st_size:,}, expected text, which is never packed that tightly: "
        "look at what is in it, and give it unpacked, as .jsonl or .tsv, if that is what you want"
    )


def cut_off(path: Path, line: int, error: BaseException) -> DataError:
    """Make the error for a broken packed file that was good up to a line."""
    return DataError(f"{path}, after line {line}: the gzip file is broken or cut off ({error})")


def lines(path: Path, file: BinaryIO, *, packed: bool) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without line end and byte order mark, read one at a time.

    Raises:
        DataError: UTF-16, a line longer than `LINE_LIMIT`, or a gzip bomb.
    """
    limit = allowance(file) if packed else None
    with gzip.GzipFile(fileobj=file) if packed else nullcontext(file) as stream:
        yield from _numbered(path, stream, limit)


def _numbered(
    path: Path, stream: BinaryIO | gzip.GzipFile, limit: int | None
) -> Iterator[tuple[int, bytes]]:
    number = total = 0
    while raw := stream.readline(LINE_LIMIT + 1):
        number += 1
        total += len(raw) + ROW
        if limit is not None and total > limit:
            raise too_large(path, f"line {number}", limit)
        if len(raw) > LINE_LIMIT:
            msg = (
                f"{path}, line {number}: got more than {LINE_LIMIT:,} bytes without a line end, "
                "expected lines of text: is it a text file, with one row per line?"
            )
            raise DataError(msg)
        if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            msg = f"{path}: got UTF-16, expected UTF-8: convert the file"
            raise DataError(msg)
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")
