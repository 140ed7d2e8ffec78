"""Files that stand in a folder, in a zip archive, or compressed, read alike."""

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO

LIMIT = 2 << 30
"""Bytes that one file may have when unpacked: more than any word vectors in use, and less than
what fills the memory of a machine when somebody made an archive for that purpose."""


class BrokenFile(ValueError):
    """A file that is there, but is not what it should be."""


def member(place: Path, name: str) -> bytes:
    """One file of a folder or of a zip archive.

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
    """The lines of a text file, plain, `.gz`, or the only text file in a `.zip`.

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
    # Only \n ends a line: GloVe has words that are other ends of lines.
    return TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n")
