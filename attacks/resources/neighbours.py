"""The words nearest to each word.

They come from vectors (`VectorNeighbours`, with similarities) or from ready lists
(`ListedNeighbours`, without).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from attacks.digests import content_digest
from attacks.resources.archive import BrokenFile
from attacks.resources.vectors import Ints, WordVectors
from text.bounded_files import DataError, read_json


class Neighbours(Protocol):
    """Words that may replace a word.

    Attributes:
        vectors: vectors for similarities; None if there are none.
    """

    vectors: WordVectors | None

    def of(self, word: str, k: int) -> Sequence[str]:
        """Return at most k neighbours of a lower-case word, the nearest first."""


class VectorNeighbours:
    """Finds the nearest words by cosine.

    Args:
        vectors: vectors of all words.
        limit: neighbours that are found at once; a larger k finds them anew.
        cache: folder that keeps them.
    """

    def __init__(self, vectors: WordVectors, *, limit: int = 50, cache: Path | None = None) -> None:
        self.vectors: WordVectors | None = vectors
        self._vectors = vectors
        self._limit = limit
        self._cache = cache
        self._nearest: Ints | None = None

    def of(self, word: str, k: int) -> Sequence[str]:
        """See `Neighbours`."""
        row = self._vectors.index.get(word)
        if row is None:
            return ()
        if self._nearest is None or k > self._limit:
            self._limit = max(k, self._limit)
            self._nearest = self._vectors.nearest(self._limit, cache=self._cache)
        words = self._vectors.words
        # Sorted once for the largest k that was asked for.
        return [words[i] for i in self._nearest[row, :k].tolist()]


class ListedNeighbours:
    """Takes the neighbours from ready lists: a JSON object from each word to its neighbours.

    Args:
        lists: nearest first.
        name: name of the file, for messages.
    """

    vectors: WordVectors | None = None

    def __init__(self, lists: Mapping[str, Sequence[str]], *, name: str) -> None:
        self._lists = lists
        self.name = name
        self.longest = max((len(neighbours) for neighbours in lists.values()), default=0)

    @classmethod
    def read(cls, path: str | Path) -> "ListedNeighbours":
        """Read the lists of a `.json` or `.json.gz` file.

        Raises:
            BrokenFile: not such an object.
        """
        path = Path(path)
        try:
            lists = read_json(path, "an object of lists of words")
        except DataError as error:
            raise BrokenFile(str(error)) from error
        fits = isinstance(lists, dict) and all(
            isinstance(words, list) and all(isinstance(word, str) for word in words)
            for words in lists.values()
        )
        if not fits:
            msg = f"{path}: got other JSON than expected, an object of lists of words"
            raise BrokenFile(msg)
        return cls(lists, name=path.name)

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        return {"lists": content_digest(self._lists)}

    def of(self, word: str, k: int) -> Sequence[str]:
        """See `Neighbours`."""
        return self._lists.get(word, ())[:k]
