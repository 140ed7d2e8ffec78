"""Files from a server: checked, in parts where a connection breaks, and named when they are whole.

The next try goes on where the last one ended, also after the program was stopped.
"""

import hashlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

TRIES = 6
"""How often a connection may break before a file is given up for now."""
PIECE = 1 << 18
TIMEOUT = 30.0
"""Seconds without a byte."""


class DownloadError(OSError):
    """A file could not be had."""


def fetch(url: str, path: Path, *, sha256: str | None, size: int | None = None) -> Path:
    """Get a file.

    Args:
        url: where it is; https, file, or http on this machine.
        path: what it will be called. Beside it, hidden, lies what has come so far.
        sha256: its checksum; not checked if None.
        size: most bytes that it may have; not bounded if None.

    Returns:
        `path`.

    Raises:
        DownloadError: it could not be had, or is another file than expected.
    """
    _allowed(url)
    if sha256 is not None and path.is_file() and _digest(path) == sha256.lower():
        return path
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(part) as stream:
            before = stream.seek(0, os.SEEK_END)
            _fill(url, stream, size)
            if not _is(part, sha256) and before:
                # What came before was of another file, or broken.
                stream.truncate(0)
                _fill(url, stream, size)
            if not _is(part, sha256):
                found = _digest(part)
                stream.truncate(0)
                part.unlink()
                msg = (
                    f"got a file of SHA-256 {found} from {url}, expected {sha256}: it has changed "
                    "or was tampered with, and is deleted"
                )
                raise DownloadError(msg)
            os.fsync(stream.fileno())
            part.replace(path)
    except DownloadError:
        raise
    except OSError as error:
        msg = f"could not write {path}: {error.strerror or error}"
        raise DownloadError(msg) from error
    return path


def _allowed(url: str) -> None:
    """Checksums protect what is got; https also hides it, and is asked for."""
    local = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")
    if not url.startswith(("https://", "file:///", *local)):
        msg = f"got {url}, expected https://, file:/// or a server on this machine"
        raise DownloadError(msg)


@contextmanager
def _alone(part: Path) -> Iterator[IO[bytes]]:
    """Open a file to go on with, unless another process is doing so."""
    with part.open("ab") as stream:
        with suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                msg = f"another process is getting {part.name[1:-5]}; wait for it"
                raise DownloadError(msg) from error
        yield stream


def _fill(url: str, stream: IO[bytes], size: int | None) -> None:
    """Append to a file what is missing of it, through connections that break."""
    tries = 0
    while True:
        start = stream.seek(0, os.SEEK_END)
        try:
            _append(url, stream, start, size)
            return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and start:  # there is nothing behind what is there
                return
            if error.code < 500:
                msg = f"got status {error.code} {error.reason} from {url}"
                raise DownloadError(msg) from error
            problem: Exception = error
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            problem = error
        stream.flush()
        # As long as something comes, it goes on.
        tries = 0 if stream.seek(0, os.SEEK_END) > start else tries + 1
        if tries >= TRIES or url.startswith("file:"):
            reason = getattr(problem, "reason", None) or problem
            msg = (
                f"could not get {url}: {reason}; the same command goes on where this ended "
                f"({stream.tell()} bytes)"
            )
            raise DownloadError(msg) from problem
        time.sleep(min(0.2 * 2**tries, 5.0))


def _append(url: str, stream: IO[bytes], start: int, size: int | None) -> None:
    """Append what comes over one connection; ends when all has come."""
    request = urllib.request.Request(url, headers={"User-Agent": "steadfast"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        if start and not _continues(answer, start):
            start = 0
            stream.truncate(0)
        length = answer.headers.get("Content-Length")
        wanted = None if length is None else start + int(length)
        while piece := answer.read(PIECE):
            stream.write(piece)
            start += len(piece)
            if size is not None and start > size:
                stream.truncate(0)
                msg = f"got more than {size} bytes from {url}, which is another file than expected"
                raise DownloadError(msg)
        stream.flush()
        if wanted is not None and start < wanted:
            msg = f"the connection broke after {start} of {wanted} bytes"
            raise ConnectionError(msg)


def _continues(answer: Any, start: int) -> bool:
    """Whether the answer is what follows the first `start` bytes."""
    place = answer.headers.get("Content-Range", "")
    return getattr(answer, "status", None) == 206 and place.startswith(f"bytes {start}-")


def _is(part: Path, sha256: str | None) -> bool:
    return sha256 is None or _digest(part) == sha256.lower()


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
