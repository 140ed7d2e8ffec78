"""Keeps candidates that a sentence encoder finds similar."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attacks.compat import Compat
from attacks.composition import Group
from attacks.document import Candidate, Document, count_words, word_spans
from attacks.resources.passages import Passages
from attacks.resources.thresholds import Metric


class SentenceComparer(Protocol):
    """Compares texts; see `attacks.resources.sentence_encoders.SentenceEncoder`."""

    name: str

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
        """`[n]` cosines of n texts with n others."""


class SentenceSimilarity:
    """Bounds the similarity to the former text, in a window of words around the change.

    In a pair only the changed text is compared. The reference joins both: there an unchanged
    premise of forty words hides nearly any change of a hypothesis of eight, and the window reaches
    from one into the other. Which samples are exempt as short is decided on both texts, as there.

    Args:
        encoder: compares texts, all of a round in one call.
        minimum: similarity that is asked for; depends on the encoder (docs/attacks/similarity.md).
        window: words that are compared, the changed one in their middle as far as the text allows;
            the whole text if None.
        metric: `angular`: 1 - angle / pi, in [0, 1]; `cosine`: of that angle.
        against: `original`: the text that is attacked; `current`: the text before this change, so
            that it may drift away step by step, as in TextFooler's code.
        skip_short: accept texts that are shorter than the window.
        compat: `textattack`: pairs are joined, and after an inserted word the windows are not
            where the change is.

    Raises:
        ValueError: a window without words, or a minimum that no or every similarity reaches.
    """

    cost = 1000.0

    def __init__(
        self,
        encoder: SentenceComparer,
        minimum: float,
        *,
        window: int | None = 15,
        metric: Metric = "angular",
        against: Literal["original", "current"] = "original",
        skip_short: bool = True,
        compat: str = "none",
    ) -> None:
        if window is not None and window < 1:
            msg = f"got window={window}, expected at least one word, or None for the whole text"
            raise ValueError(msg)
        if not (0 if metric == "angular" else -1) <= minimum <= 1:
            msg = f"got minimum={minimum} of {metric} similarity, expected a number up to 1"
            raise ValueError(msg)
        self.encoder, self.minimum = encoder, minimum
        self.window, self.metric, self.against = window, metric, against
        self.skip_short = skip_short and window is not None
        self.joined = Compat(compat).joins_pairs

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`; sets `similarity` of every candidate, 1 for those that are exempt."""
        compared: list[Candidate] = []
        before: list[str] = []
        after: list[str] = []
        passages = Passages(joined=self.joined)
        for group in groups:
            reference = group.original if self.against == "original" else group.current
            windows: dict[tuple[int, int], str] = {}
            for candidate in group.candidates:
                if self._exempt(candidate):
                    candidate.similarity = 1.0
                    continue
                # A word behind the last of a text has the number of the next text's first word.
                place = candidate.column, candidate.index
                if place not in windows:
                    windows[place] = self._reference(reference, candidate, passages)
                compared.append(candidate)
                before.append(windows[place])
                after.append(self._changed(candidate, passages))
        if compared:
            # One call for all samples of the round.
            similarities = self.encoder.cosines(before, after)
            if self.metric == "angular":
                # TextFooler's "angular" similarity, in [0, 1].
                similarities = 1 - np.arccos(similarities) / np.pi
            for candidate, similarity in zip(compared, similarities.tolist(), strict=True):
                candidate.similarity = similarity
        return [
            [c.similarity is not None and c.similarity >= self.minimum for c in group.candidates]
            for group in groups
        ]

    def _exempt(self, candidate: Candidate) -> bool:
        if not self.skip_short or self.window is None:
            return False
        words = len(candidate.base) - candidate.width + count_words(candidate.word)
        return words < self.window

    def _reference(self, reference: Document, candidate: Candidate, passages: Passages) -> str:
        """Return the text that a candidate is compared with."""
        base, index = candidate.base, candidate.index
        passage = passages.of(reference, candidate.column)
        index = min(index, len(base) - 1)  # of a word that is inserted behind the last
        if reference is not base and not self.joined:
            index = _origin(base, index)
        return passage.around(index, self.window)

    def _changed(self, candidate: Candidate, passages: Passages) -> str:
        """Return the text of a candidate around its change."""
        base, index = candidate.base, candidate.index
        column = candidate.column
        if self.window is None:
            return "\n".join(candidate.columns) if self.joined else candidate.columns[column]
        if candidate.width == 1 and _is_word(candidate.word):
            # Nearly always one word takes the place of one: all others stay what they are.
            return passages.of(base, column).around(index, self.window, word=candidate.word)
        return passages.of(base.remake(candidate.columns), column).around(index, self.window)


def _origin(document: Document, index: int) -> int:
    """Return the number of a word in the original; for an inserted one that of the word before."""
    return next((number for number in document.origin[index::-1] if number >= 0), 0)


@lru_cache(maxsize=1 << 15)
def _is_word(text: str) -> bool:
    return word_spans(text) == [(0, len(text))]
