"""Reads files from a folder, from a zip archive, or compressed."""

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO

LIMIT = 2 << 30
"""Bytes of one unpacked file: more than any word vectors in use, but a hostile archive cannot fill
the memory."""


class BrokenFile(ValueError):
    """A file exists, but has wrong content."""


def member(place: Path, name: str) -> bytes:
    """Reads one file of a folder or of a zip archive.

    Args:
        place: the folder, or a zip archive that holds a folder of its own name.
        name: the file in it.

    Raises:
        BrokenFile: it cannot be read.
    """
    try:
        if place.is_dir():
            return (place / name).read_bytes()
        with zipfile.ZipFile(place) as archive:
            return _bounded(archive, f"{place.stem}/{name}", place)
    except (OSError, KeyError, zipfile.BadZipFile, EOFError) as error:
        reason = " ".join(str(error).split())
        msg = f"{place}: could not read {name} ({reason}); delete it and get it again"
        raise BrokenFile(msg) from error


def _bounded(archive: zipfile.ZipFile, name: str, place: Path) -> bytes:
    size = archive.getinfo(name).file_size
    if size > LIMIT:
        msg = f"{place}: got {name} of {size} bytes, expected at most {LIMIT}"
        raise BrokenFile(msg)
    return archive.read(name)


@contextmanager
def lines_of(path: Path) -> Iterator[IO[str]]:
    """Opens a text file: plain, `.gz`, or the only one in a `.zip`.

    Yields:
        A stream of text. A byte that is no UTF-8 reads as a replacement character.

    Raises:
        BrokenFile: it cannot be read.
    """
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if name.endswith((".txt", ".json"))]
                if len(names) != 1:
                    msg = f"{path}: got {len(names)} text files in it, expected one"
                    raise BrokenFile(msg)
                yield _text(BytesIO(_bounded(archive, names[0], path)))
        elif path.suffix == ".gz":
            with gzip.open(path) as stream:
                yield _text(stream)
        else:
            with path.open("rb") as plain:
                yield _text(plain)
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())
        msg = f"{path}: could not be read ({reason}); delete it and get it again"
        raise BrokenFile(msg) from error


def _text(stream: IO[bytes] | gzip.GzipFile) -> TextIOWrapper:
    # Only \n ends a line: some words of GloVe are other line ends.
    return TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n")
