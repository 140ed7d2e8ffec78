"""Downloads files, checks their checksums, and names them when they are whole.

`torch.hub` and `datasets` do less: neither tries again, torch sets no time limit and takes a broken
connection for the end of a file without a checksum, and `datasets` compares no checksum of a file.
"""

import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO

from app.runs import atomic
from attacks.digests import file_digest
from text.web_address import redact

TRIES = 6
"""Connections in a row without new bytes before a file is given up."""
TIMEOUT = 30.0
"""Seconds without a byte."""
_ALLOWED = ("https://", "file:///", "http://127.0.0.1:", "http://localhost:", "http://[::1]:")


class DownloadError(RuntimeError):
    """A file could not be downloaded."""


def fetch(url: str, path: Path, *, sha256: str | None, size: int | None = None) -> Path:
    """Downloads a file.

    Args:
        url: where it is; https, file, or http on this machine.
        path: where to keep it. A file that is there with the right checksum is not fetched again.
        sha256: its checksum; not compared if None.
        size: most bytes that it may have; not bounded if None.

    Returns:
        `path`.

    Raises:
        DownloadError: the server does not deliver it, or it is another file than expected.
        OSError: it cannot be written.
    """
    if not url.startswith(_ALLOWED):
        msg = f"got {redact(url)}, expected https://, file:/// or a server on this machine"
        raise DownloadError(msg)
    if sha256 is not None and path.is_file() and file_digest(path) == sha256.lower():
        return path
    with atomic.replacing(path) as stream:
        _fill(stream, url, size)
        stream.flush()
        if sha256 is not None and (found := file_digest(Path(stream.name))) != sha256.lower():
            msg = (
                f"got a file of SHA-256 {found} from {redact(url)}, expected {sha256}: it has "
                "changed or was tampered with, and is deleted"
            )
            raise DownloadError(msg)
    return path


def _fill(stream: IO[bytes], url: str, size: int | None) -> None:
    """Writes the answer of a server; a new connection goes on where one broke."""
    tries = furthest = 0
    while True:
        try:
            _append(stream, url, size)
            return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500:
                msg = f"got status {error.code} {error.reason} from {redact(url)}"
                raise DownloadError(msg) from error
            problem: Exception = error
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            problem = error
        tries = 0 if stream.tell() > furthest else tries + 1
        furthest = max(furthest, stream.tell())
        if tries >= TRIES or url.startswith("file:"):
            reason = getattr(problem, "reason", None) or problem
            came = f"{stream.tell()} bytes came"
            msg = f"could not get {redact(url)}: {reason} ({came}); try again later"
            raise DownloadError(msg) from problem
        time.sleep(min(0.2 * 2**tries, 5.0))


def _append(stream: IO[bytes], url: str, size: int | None) -> None:
    """Appends the missing bytes that one connection brings."""
    request = urllib.request.Request(url, headers={"User-Agent": "steadfast"})
    if start := stream.tell():
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        if not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            stream.seek(0)  # the server sends the whole file
            stream.truncate()
        length = answer.headers.get("Content-Length")
        wanted = None if length is None else stream.tell() + int(length)
        while piece := answer.read(1 << 18):
            stream.write(piece)
            if size is not None and stream.tell() > size:
                msg = f"got more than {size} bytes from {redact(url)}, expected another file"
                raise DownloadError(msg)
    if wanted is not None and stream.tell() < wanted:
        msg = f"the connection broke after {stream.tell()} of {wanted} bytes"
        raise ConnectionError(msg)
