"""Reads word vectors from text files, and finds nearest words."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attacks.resources.vector_files import Floats, discard, new_part, read_vectors
from text.bounded_files import opened

log = logging.getLogger(__name__)

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
        """Read a text file, see `read_vectors`; `cache` is the folder that keeps the result."""
        loaded = read_vectors(path, cache=cache)
        return cls(loaded.words, loaded.matrix, digest=loaded.digest)

    def nearest(self, k: int, *, cache: Path | None = None) -> Ints:
        """Return `[n, k]`, the k nearest other words of each word by cosine, the nearest first.

        They are found in single precision and ordered in double; equally near ones in the order of
        the vocabulary. The folder `cache` keeps the result.
        """
        k = min(k, len(self.words) - 1)
        name = f"neighbours-{self.digest}-{k}"
        cached = None if cache is None else _load(cache, name)
        if cached is not None and cached.shape == (len(self.words), k):
            return cached.astype(np.int32)
        nearest = np.empty((len(self.words), k), dtype=np.int32)
        if k == 0:
            return nearest
        wide = min(k + SPARE, len(self.words) - 1)
        precise = self.unit.astype(np.float64)
        for start in range(0, len(self.words), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(self.words)))
            similarity = self.unit[rows] @ self.unit.T
            # A word is not its own neighbour.
            similarity[np.arange(len(rows)), rows] = -np.inf
            # A few more than k, as single precision may swap near ones.
            best = np.argpartition(similarity, -wide, axis=1)[:, -wide:]
            # In the order of the vocabulary, which the stable sort keeps among equals.
            best.sort(axis=1)
            exact = np.einsum("nd,nkd->nk", precise[rows], precise[best])
            order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
            nearest[rows] = np.take_along_axis(best, order, axis=1)
        if cache is not None:
            _save(cache, name, nearest)
        return nearest


def _load(cache: Path, name: str) -> Ints | None:
    """Read neighbours from the cache; None if they are missing or damaged."""
    try:
        path = cache / f"{name}-v{VERSION}.npz"
        # Opened here: where numpy finds no archive in a file, it leaves it open.
        with opened(path) as stream, np.load(stream, allow_pickle=False) as archive:
            nearest: Ints = archive["nearest"]
            return nearest
    except Exception as error:  # any damage: it can be made again
        if not isinstance(error, FileNotFoundError):
            log.debug("cache %s of %s: %s", cache, name, error)
        return None


def _save(cache: Path, name: str, nearest: Ints) -> None:
    """Write neighbours to the cache in one step; a failure costs only time."""
    parts: list[Path] = []
    try:
        with new_part(cache, parts) as stream:
            np.savez(stream, nearest=nearest)
        parts[0].replace(cache / f"{name}-v{VERSION}.npz")
    except OSError as error:
        log.debug("cache %s takes no %s: %s", cache, name, error)
    finally:
        discard(parts)
