"""Keeps texts whose mean word vector stays near."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.compat import Compat
from attacks.composition import Group
from attacks.document import Document, words_of
from attacks.resources.vectors import WordVectors


class ThoughtVectors:
    """Bounds the Euclidean distance between the mean word vectors of a text and the original.

    Source: Kuleshov et al., "Adversarial Examples for Natural Language Classification Problems",
    2018, section 3: thought vectors within 0.2. Words without a vector do not count; without
    vectors all texts are kept.

    Args:
        vectors: None if there are none.
        maximum: distance.
        compat: the reference bounds the squared distance, knows words in the case of its vectors
            only ("The" has none), and computes in single precision.

    Raises:
        ValueError: a negative distance.
    """

    cost = 4.0

    def __init__(
        self, vectors: WordVectors | None, maximum: float = 0.2, *, compat: str = "none"
    ) -> None:
        if maximum < 0:
            msg = f"got {maximum=}, expected a distance of at least 0"
            raise ValueError(msg)
        self.vectors, self.maximum = vectors, maximum
        self._reference = Compat(compat).squares_thought_distance

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        settings = {"vectors": self.vectors, "maximum": self.maximum}
        return {**settings, "compat": "textattack"} if self._reference else settings

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        if self.vectors is None:
            return [[True] * len(group.candidates) for group in groups]
        # The reference computes each mean anew, in single precision; here it is updated.
        near = self._near_squared if self._reference else self._near
        return [near(group, self.vectors) for group in groups]

    def _near(self, group: Group, vectors: WordVectors) -> list[bool]:
        first, count = _sum(group.original.words, vectors)
        total, size = _sum(group.current.words, vectors)
        target = first / max(count, 1)
        flags = []
        for candidate in group.candidates:
            index = candidate.index
            lost, gone = _sum(candidate.base.words[index : index + candidate.width], vectors)
            gained, came = _sum(words_of(candidate.word), vectors)
            # The mean is updated by the change; `max` where no word has a vector.
            mean = (total - lost + gained) / max(size - gone + came, 1)
            flags.append(bool(np.linalg.norm(mean - target) <= self.maximum))
        return flags

    def _near_squared(self, group: Group, vectors: WordVectors) -> list[bool]:
        """Return True for each candidate that the reference keeps."""
        target = _reference_mean(group.original, vectors)
        means = (
            _reference_mean(group.current.accept(candidate, mark_all=True), vectors)
            for candidate in group.candidates
        )
        return [bool(((mean - target) ** 2).sum() <= self.maximum) for mean in means]


def _reference_mean(document: Document, vectors: WordVectors) -> torch.Tensor:
    """Return the mean vector; NaN, which is near to nothing, without known words."""
    rows = [vectors.index[word] for word in document.words if word in vectors.index]
    return torch.from_numpy(vectors.matrix[rows]).mean(dim=0)


def _sum(words: Sequence[str], vectors: WordVectors) -> tuple[NDArray[np.float64], int]:
    """Return the sum of the vectors of words, and the number of those that have one."""
    rows = [vectors.index[word.lower()] for word in words if word.lower() in vectors.index]
    total: NDArray[np.float64] = vectors.matrix[rows].astype(np.float64).sum(axis=0)
    return total, len(rows)
