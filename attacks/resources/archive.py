"""Reads files from a folder, from a zip archive, or compressed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from text.bounded_files import DataError, lines, opened, opened_zip, read_bytes, zip_member

LIMIT = 2 << 30
"""Bytes of one unpacked file: more than any word vectors in use, but a hostile archive cannot fill
the memory."""


class BrokenFile(DataError):
    """A file exists, but has wrong content."""


@contextmanager
def _broken(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except BrokenFile:
        raise
    except DataError as error:
        if not path.exists():
            raise
        msg = f"{path}: could not {kind} ({error}); delete it and get it again"
        raise BrokenFile(msg) from error


def member(path: Path, name: str) -> bytes:
    """Read the file `name` of a folder, or of a zip archive that holds a folder of its own name.

    Raises:
        BrokenFile: it cannot be read.
    """
    with _broken(path, f"read {name}"):
        if path.is_dir():
            return read_bytes(path / name)
        with opened_zip(path) as archive:
            return zip_member(path, archive, f"{path.stem}/{name}", limit=LIMIT)


@contextmanager
def lines_of(path: Path) -> Iterator[Iterator[str]]:
    r"""Open a text file: plain, `.gz`, or the only one in a `.zip`; yield its lines.

    Only `\n` ends a line: some words of GloVe are other line ends. A byte that is not UTF-8 reads
    as a replacement character.

    Raises:
        BrokenFile: it cannot be read.
    """
    with _broken(path, "be read"):
        if path.suffix == ".zip":
            yield (line.decode("utf-8", "replace") for line in _only(path).split(b"\n"))
            return
        with opened(path) as file:
            numbered = lines(path, file, packed=path.suffix == ".gz")
            yield (line.decode("utf-8", "replace") for _, line in numbered)


def _only(path: Path) -> bytes:
    """The only text file of an archive, without the end of its last line."""
    with opened_zip(path) as archive:
        names = [name for name in archive.namelist() if name.endswith((".txt", ".json"))]
        if len(names) != 1:
            msg = f"{path}: got {len(names)} text files in it, expected one"
            raise BrokenFile(msg)
        return zip_member(path, archive, names[0], limit=LIMIT).removesuffix(b"\n")
