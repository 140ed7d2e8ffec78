"""Reads text files of word vectors line by line, and keeps them as arrays on the disk."""

import json
import logging
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attacks.digests import LENGTH, file_digest
from attacks.resources.archive import BrokenFile, lines_of
from text.bounded_files import DataError, opened, read_json

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]

VERSION = 2
"""Of the files in the cache."""
_COUNT = re.compile("[0-9]{1,12}")
"""A number of the header; `isdigit` knows digits that `int` does not."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class VectorFile:
    """The content of a file of word vectors.

    Attributes:
        words: n different words, in the order of the file.
        matrix: `[n, d]` their vectors; those from a cache stay on the disk until they are used.
        digest: SHA-256 of the file, its first `LENGTH` digits.
        repeated: number of lines whose word an earlier line has.
    """

    words: list[str]
    matrix: Floats
    digest: str
    repeated: int


def cache_folder() -> Path:
    """Return the cache folder: `steadfast` in `XDG_CACHE_HOME` or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steadfast"


def read_vectors(path: str | Path, *, cache: Path | None = None) -> VectorFile:
    """Read a text file: a word and its numbers per line, separated by spaces.

    GloVe, counter-fitted vectors and word2vec (with a header line) have this format; plain, `.gz`
    or `.zip`. Of repeated words the first vector counts.

    Args:
        path: the file.
        cache: folder that keeps the result, by the digest of the file; see `cache_folder`.

    Raises:
        BrokenFile: a file that cannot be read, a line that is not like the others, a number that is
            none, or fewer lines than a header says.
    """
    path = Path(path)
    try:
        digest = file_digest(path)[:LENGTH]
    except DataError as error:
        raise BrokenFile(str(error)) from error
    if cache is not None:
        cached = _load(cache, digest)
        if cached is None and _save(cache, digest, path):
            cached = _load(cache, digest)
        if cached is not None:
            return cached
    stream = BytesIO()
    words, repeated = _collect(path, stream)
    stream.seek(0)
    return VectorFile(words, npy.read_array(stream), digest, repeated)


def _collect(path: Path, stream: IO[bytes]) -> tuple[list[str], int]:
    """Write the vectors of a text file to a stream, as numpy's format, line by line.

    Returns:
        The different words, and the number of repeated ones.
    """
    words: dict[str, None] = {}
    repeated, width, body = 0, 0, 0
    for word, row in _parse(path):
        if word in words:
            repeated += 1
            continue
        if not words:
            # The number of rows is not known yet: the header is written again at the end.
            width, body = len(row), _header(stream, 0, len(row))
        words[word] = None
        stream.write(row.tobytes())
    # The format leaves room for more rows, so that the header keeps its length.
    if _header(stream, len(words), width) != body:
        msg = f"got {len(words)} vectors, more than the header of the format has room for"
        raise BrokenFile(msg)
    stream.seek(0, os.SEEK_END)
    return list(words), repeated


def _header(stream: IO[bytes], rows: int, width: int) -> int:
    """Write the header of an array to the begin of a stream; returns the place behind it."""
    stream.seek(0)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    npy.write_array_header_1_0(stream, header)
    return stream.tell()


def _parse(path: Path) -> Iterator[tuple[str, Floats]]:
    """Yield the word and the vector of each line."""
    width, promised, number, first = 0, None, 0, 1
    with lines_of(path) as stream:
        for number, line in enumerate(stream, start=1):
            fields = line.rstrip().split(" ")
            if number == 1 and len(fields) == 2 and all(map(_COUNT.fullmatch, fields)):
                (promised, width), first = map(int, fields), 2  # word2vec's header
                continue
            width = width or len(fields) - 1
            # Some words of GloVe's largest file have spaces in them, but none ends with a number.
            numbers = _numbers(fields)
            word = " ".join(fields[: len(fields) - len(numbers)])
            if width < 2 or not word or len(numbers) != width:
                expected = width if width > 1 else "its"
                msg = (
                    f"{path}, line {number}: got {len(numbers)} finite numbers at the end of "
                    f"{line[:60]!r}, expected a word and {expected} finite numbers"
                )
                raise BrokenFile(msg)
            yield word, np.array(numbers, dtype="<f4")
    lines = number - first + 1
    if lines < 1:
        msg = f"{path}: got an empty file, expected a word and its numbers per line"
        raise BrokenFile(msg)
    if promised is not None and lines < promised:
        msg = (
            f"{path}: got {lines} vectors, expected {promised} as its first line says: it has been "
            "cut off; get it again"
        )
        raise BrokenFile(msg)


def _numbers(fields: list[str]) -> list[float]:
    """Return the finite numbers at the end of a line, whose first field is a word."""
    numbers: list[float] = []
    for field in reversed(fields[1:]):
        try:
            number = float(field)
        except ValueError:
            break
        if not abs(number) <= _LARGEST:
            break
        numbers.append(number)
    return numbers[::-1]


def _files(cache: Path, digest: str) -> tuple[Path, Path]:
    """Return where the words and the vectors of a file are kept."""
    name = f"vectors-{digest}-v{VERSION}"
    return cache / f"{name}.json", cache / f"{name}.npy"


def _load(cache: Path, digest: str) -> VectorFile | None:
    """Return the content of a file from the cache; None if it is missing or damaged."""
    try:
        words, vectors = _files(cache, digest)
        content = read_json(words, "words of a cache")
        with opened(vectors):  # no pipe, which would never end
            matrix = np.load(vectors, mmap_mode="r", allow_pickle=False)
        loaded = VectorFile(content["words"], np.asarray(matrix), digest, content["repeated"])
        if matrix.dtype != np.float32 or matrix.ndim != 2 or len(matrix) != len(loaded.words):
            msg = "words and vectors that do not belong together"
            raise ValueError(msg)
    except Exception as error:  # any damage: it can be made again
        if not isinstance(error, FileNotFoundError):
            log.debug("cache %s of %s: %s", cache, digest, error)
        return None
    return loaded


@contextmanager
def new_part(cache: Path, parts: list[Path]) -> Iterator[IO[bytes]]:
    """Open a new hidden file in the cache, which is on the disk afterwards; add it to the parts."""
    cache.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=cache, prefix=".vectors", suffix=".part")
    parts.append(Path(name))
    with os.fdopen(descriptor, "wb") as stream:
        yield stream
        stream.flush()
        # A crash must not leave an empty file under the final name.
        os.fsync(stream.fileno())


def discard(parts: Iterable[Path]) -> None:
    """Delete those parts that were not given their final names."""
    for part in parts:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _save(cache: Path, digest: str, path: Path) -> bool:
    """Read a file into the cache; False if the cache cannot be written, which costs only time."""
    parts: list[Path] = []
    try:
        with new_part(cache, parts) as stream:
            words, repeated = _collect(path, stream)
        with new_part(cache, parts) as stream:
            stream.write(json.dumps({"words": words, "repeated": repeated}).encode())
        for part, file in zip(parts, reversed(_files(cache, digest)), strict=True):
            part.replace(file)
    except OSError as error:
        log.debug("cache %s takes no vectors: %s", cache, error)
        return False
    finally:
        discard(parts)
    return True
