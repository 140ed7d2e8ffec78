"""Downloads files, compares their checksums, and renames them when they are complete.

`torch.hub` and `datasets` do less: neither tries again, torch sets no time limit and takes a broken
connection for the end of a file without a checksum, and `datasets` compares no checksum of a file.
"""

import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO

from attacks.digests import file_digest
from run_files import atomic
from text.web_address import redact

TRIES = 6
"""Connections in a row without new bytes after which a download fails."""
TIMEOUT = 30.0
"""Seconds without a byte after which a connection fails."""
# Without TLS only to this machine: not every file has a checksum.
_ALLOWED = ("https://", "file:///", "http://127.0.0.1:", "http://localhost:", "http://[::1]:")


class DownloadError(RuntimeError):
    """A file could not be downloaded."""


def fetch(url: str, path: Path, *, sha256: str | None, size: int | None = None) -> Path:
    """Download a file.

    Args:
        url: address; https, file, or http on this machine.
        path: path of the copy. A copy with the right checksum is not downloaded again.
        sha256: its checksum; None: not compared.
        size: most bytes that it may have; None: no bound.

    Returns:
        `path`.

    Raises:
        DownloadError: the server does not send it, or sends another file.
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
        if sha256 is not None and (digest := file_digest(Path(stream.name))) != sha256.lower():
            msg = (
                f"got a file of SHA-256 {digest} from {redact(url)}, expected {sha256}: it has "
                "changed or was tampered with, and is deleted"
            )
            raise DownloadError(msg)
    return path


def _fill(stream: IO[bytes], url: str, size: int | None) -> None:
    """Write the content of a file; a new connection resumes where the last one broke."""
    tries = furthest = 0
    while True:
        try:
            _append(stream, url, size)
            return
        except urllib.error.HTTPError as error:
            error.close()
            # 4xx: our request is wrong, another try would not help.
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
            received = f"{stream.tell()} bytes came"
            msg = f"could not get {redact(url)}: {reason} ({received}); try again later"
            raise DownloadError(msg) from problem
        time.sleep(min(0.2 * 2**tries, 5.0))


def _append(stream: IO[bytes], url: str, size: int | None) -> None:
    """Append the bytes of one connection, from the end of the stream on."""
    request = urllib.request.Request(url, headers={"User-Agent": "steadfast"})
    if start := stream.tell():
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            stream.seek(0)  # the server ignores ranges: it sends the file from its begin
            stream.truncate()
        length = response.headers.get("Content-Length")
        end = None if length is None else stream.tell() + int(length)
        while chunk := response.read(1 << 18):
            stream.write(chunk)
            if size is not None and stream.tell() > size:
                msg = f"got more than {size} bytes from {redact(url)}, expected another file"
                raise DownloadError(msg)
    # urllib takes a broken connection for the end of the file.
    if end is not None and stream.tell() < end:
        msg = f"the connection broke after {stream.tell()} of {end} bytes"
        raise ConnectionError(msg)
