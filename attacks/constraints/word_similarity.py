"""Keeps replacements whose word vector is near."""

import logging
from collections.abc import Sequence

import numpy as np

from attacks.compat import Compat
from attacks.composition import Group
from attacks.constraints.words import WordReplacements, keep_words
from attacks.resources.vectors import WordVectors

log = logging.getLogger(__name__)

NEAR = 1e-5
"""Cosines nearer to the minimum are computed again, as the reference does."""


class WordSimilarity:
    """Keeps replacements whose vector has a large enough cosine to that of the word they replace.

    Source: Jin et al. (TextFooler), 2020, step 2. Words without a vector are kept, whichever of the
    two it is, as in the reference.

    Without vectors all single words are kept, with a warning. That is as good for candidates from
    ready lists of the nearest counter-fitted neighbours (docs/attacks/resources.md).

    Args:
        vectors: None if there are none.
        minimum: cosine between -1 and 1.
        compat: the reference also asks about replacements of several words, each against the word
            that stood in the same position, and lets marks through. Otherwise only single words are
            kept.
    """

    cost = 2.0

    def __init__(
        self, vectors: WordVectors | None, minimum: float, *, compat: str = "none"
    ) -> None:
        if not -1 <= minimum <= 1:
            msg = f"got {minimum=}, expected a cosine between -1 and 1"
            raise ValueError(msg)
        self.vectors, self.minimum, self.compat = vectors, minimum, Compat(compat)
        if vectors is None:
            log.warning(
                "no word vectors: candidates come from ready lists of neighbours, and their "
                "cosine to the word they replace (at least %g) is not tested",
                minimum,
            )

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        return keep_words(groups, self.compat, self._near)

    def _near(self, group: Group, slot: WordReplacements) -> list[bool]:
        """Return True for each new word that is near, or has no vector."""
        import torch
        from torch.nn.functional import cosine_similarity

        flags, vectors = [True] * len(slot.new), self.vectors
        old_row = None if vectors is None else vectors.index.get(slot.old.lower())
        if vectors is None or old_row is None:
            return flags
        new_rows = [vectors.index.get(word.lower(), -1) for word in slot.new]
        known_words = [i for i, row in enumerate(new_rows) if row >= 0]
        rows = [new_rows[i] for i in known_words]
        # `unit` has rows of length 1: the product is the cosine, `[candidates]`.
        cosines = vectors.unit[rows] @ vectors.unit[old_row]
        # Rounding must not decide: close ones are computed as the reference does.
        close = np.abs(cosines - self.minimum) < NEAR
        for n in np.flatnonzero(close).tolist():
            # In the order of the vocabulary, in single precision.
            pair = torch.from_numpy(vectors.matrix[sorted((old_row, rows[n]))])
            cosines[n] = cosine_similarity(pair[0], pair[1], dim=0)
        for i, cosine in zip(known_words, cosines.tolist(), strict=True):
            flags[i] = cosine >= self.minimum
        return flags
