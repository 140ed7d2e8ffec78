"""Reads word vectors from text files, and finds nearest words."""

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.digests import LENGTH, file_digest
from attacks.resources.archive import BrokenFile, lines_of

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

BLOCK = 256
"""Words whose similarities to all others are in memory at once."""
SPARE = 16
"""Neighbours found in single precision beyond those that are ordered in double."""
VERSION = 1
"""Of the files in the cache."""


class WordVectors:
    """A vector per word.

    Args:
        words: n different words.
        matrix: `[n, d]` their vectors; kept as they are.
        digest: identifies the vectors, and names their files in the cache.

    Attributes:
        words: the words, in order.
        index: position of each word.
        matrix: `[n, d]`.
        unit: `[n, d]`, each of length 1 (of length 0 where the vector is 0).
    """

    def __init__(self, words: Sequence[str], matrix: Floats, *, digest: str) -> None:
        self.words = list(words)
        self.index = {word: i for i, word in enumerate(self.words)}
        if len(self.index) != len(self.words) or len(self.words) != len(matrix):
            msg = (
                f"got {len(self.words)} words, {len(self.index)} of them different, and "
                f"{len(matrix)} vectors, expected a vector for each of different words"
            )
            raise ValueError(msg)
        self.matrix = matrix
        self.digest = digest
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        self.unit: Floats = matrix / np.maximum(lengths, np.finfo(np.float32).tiny)

    def about(self) -> dict[str, str]:
        """See `attacks.fingerprint`."""
        return {"digest": self.digest}

    def __contains__(self, word: str) -> bool:
        return word in self.index

    @classmethod
    def read(cls, path: str | Path, *, cache: Path | None = None) -> "WordVectors":
        """Reads a text file: a word and its numbers per line, separated by spaces.

        GloVe, counter-fitted vectors and word2vec (with a header line) have this format; plain,
        `.gz` or `.zip`. Of repeated words the first vector counts.

        Args:
            path: the file.
            cache: folder that keeps the result; see `cache_folder`.

        Raises:
            BrokenFile: a line that is not like the others, or a number that is none.
        """
        path = Path(path)
        try:
            digest = file_digest(path)[:LENGTH]
        except OSError as error:
            msg = f"{path}: could not be read ({error.strerror or error})"
            raise BrokenFile(msg) from error
        kept = _load(cache, f"vectors-{digest}", ("words", "matrix"))
        if kept is not None:
            return cls(kept["words"].tobytes().decode().split("\n"), kept["matrix"], digest=digest)
        words, matrix = _parse(path)
        text = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
        _save(cache, f"vectors-{digest}", {"words": text, "matrix": matrix})
        return cls(words, matrix, digest=digest)

    def nearest(self, k: int, *, cache: Path | None = None) -> Ints:
        """Returns `[n, k]`, the k nearest other words of each word by cosine, the nearest first.

        They are found in single precision and ordered in double; equally near ones in the order of
        the vocabulary.

        Args:
            k: number of neighbours; fewer if there are fewer words.
            cache: folder that keeps the result.
        """
        k = min(k, len(self.words) - 1)
        name = f"neighbours-{self.digest}-{k}"
        kept = _load(cache, name, ("nearest",))
        if kept is not None and kept["nearest"].shape == (len(self.words), k):
            nearest: Ints = kept["nearest"].astype(np.int32)
            return nearest
        found = np.empty((len(self.words), k), dtype=np.int32)
        if k == 0:
            return found
        wide = min(k + SPARE, len(self.words) - 1)
        precise = self.unit.astype(np.float64)
        for start in range(0, len(self.words), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(self.words)))
            similarity = self.unit[rows] @ self.unit.T
            similarity[np.arange(len(rows)), rows] = -np.inf
            best = np.argpartition(similarity, -wide, axis=1)[:, -wide:]
            best.sort(axis=1)
            exact = np.einsum("nd,nkd->nk", precise[rows], precise[best])
            order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
            found[rows] = np.take_along_axis(best, order, axis=1)
        _save(cache, name, {"nearest": found})
        return found


def cache_folder() -> Path:
    """Returns the cache folder: `steadfast` in `XDG_CACHE_HOME` or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steadfast"


def _parse(path: Path) -> tuple[list[str], Floats]:
    """Reads the words and vectors of a text file."""
    words: dict[str, None] = {}
    rows: list[Floats] = []
    width = 0
    with lines_of(path) as stream:
        for number, line in enumerate(stream, start=1):
            fields = line.rstrip().split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                continue  # word2vec's header
            width = width or len(fields) - 1
            # Some words of GloVe's largest file have spaces in them.
            word = " ".join(fields[:-width]) if width else ""
            try:
                row = np.array(fields[-width:], dtype=np.float32)
            except ValueError:
                row = np.empty(0, dtype=np.float32)
            if width < 2 or not word or len(row) != width or not np.isfinite(row).all():
                msg = (
                    f"{path}, line {number}: got {line[:60]!r}, expected a word and "
                    f"{width if width > 1 else 'its'} finite numbers"
                )
                raise BrokenFile(msg)
            if word not in words:
                words[word] = None
                rows.append(row)
    if not rows:
        msg = f"{path}: got an empty file, expected a word and its numbers per line"
        raise BrokenFile(msg)
    return list(words), np.stack(rows)


def _load(cache: Path | None, name: str, keys: Sequence[str]) -> dict[str, Any] | None:
    """Reads arrays from the cache; None if they are missing or damaged."""
    if cache is None:
        return None
    try:
        path = cache / f"{name}-v{VERSION}.npz"
        # Opened here: where numpy finds no archive in a file, it leaves it open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            return {key: kept[key] for key in keys}
    except Exception as error:  # whatever is wrong with it, it can be made again
        if not isinstance(error, FileNotFoundError):
            log.debug("cache %s of %s: %s", cache, name, error)
        return None


def _save(cache: Path | None, name: str, arrays: Mapping[str, Any]) -> None:
    """Writes arrays to the cache in one step; a failure costs only time."""
    if cache is None:
        return
    part = None
    try:
        cache.mkdir(parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(dir=cache, prefix=f".{name}", suffix=".part")
        with os.fdopen(descriptor, "wb") as stream:
            np.savez(stream, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        Path(part).replace(cache / f"{name}-v{VERSION}.npz")
    except OSError as error:
        log.debug("cache %s takes no %s: %s", cache, name, error)
        if part is not None:
            with suppress(OSError):
                Path(part).unlink(missing_ok=True)
