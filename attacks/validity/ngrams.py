"""A language model of counts: surprise of words, and of the order of parts of speech.

Smoothing by Witten and Bell, "The Zero-Frequency Problem" (1991), interpolated. The base of a word
is a model of the same kind over its letters, so that unknown and misspelt words have a
probability, too, and all words together have probability 1.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

BEGIN, END = "\x02", "\x03"


class NGrams:
    """Counts of symbols after the symbols before them.

    Args:
        order: symbols that are looked at together, at least 1.
        sequences: of symbols.
        spelling: gives symbols their probability before anything was counted; None for a small
            alphabet: all symbols that occur, and one for the rest, are then as likely.

    Raises:
        ValueError: nothing to count, or an order below 1.
    """

    def __init__(
        self, order: int, sequences: Iterable[Sequence[str]], *, spelling: "NGrams | None" = None
    ) -> None:
        if order < 1:
            msg = f"got {order=}, expected at least 1"
            raise ValueError(msg)
        self.order, self.spelling = order, spelling
        self._counts: dict[tuple[str, ...], int] = defaultdict(int)
        self._totals: dict[tuple[str, ...], int] = defaultdict(int)
        self._kinds: dict[tuple[str, ...], int] = defaultdict(int)
        alphabet: set[str] = set()
        for sequence in sequences:
            self._count(sequence)
            alphabet.update(sequence)
        if not alphabet:
            msg = "got no symbols to count, expected text"
            raise ValueError(msg)
        self._uniform = 1 / (len(alphabet) + 2)  # END, and one for all unknown symbols
        self._base: dict[str, float] = {}

    def _count(self, sequence: Sequence[str]) -> None:
        padded = [BEGIN] * (self.order - 1) + [*sequence, END]
        for end in range(self.order, len(padded) + 1):
            for size in range(1, self.order + 1):
                gram = tuple(padded[end - size : end])
                self._totals[gram[:-1]] += 1
                # Different symbols after a history.
                self._kinds[gram[:-1]] += gram not in self._counts
                self._counts[gram] += 1

    def probability(self, symbol: str, before: Sequence[str]) -> float:
        """Return the probability of a symbol (or `END`) after others."""
        history = tuple(before)[max(0, len(before) - self.order + 1) :]
        estimate = self._start(symbol)
        for size in range(len(history) + 1):
            part = history[len(history) - size :]
            total = self._totals.get(part)
            if total is None:
                break
            # Witten-Bell: unseen symbols get the share of the kinds after this history.
            kinds = self._kinds[part]
            estimate = (self._counts.get((*part, symbol), 0) + kinds * estimate) / (total + kinds)
        return estimate

    def _start(self, symbol: str) -> float:
        if self.spelling is None:
            return self._uniform
        probability = self._base.get(symbol)
        if probability is None:
            # The end of the text is a word like others, spelt by a letter that none has.
            probability = self._base[symbol] = math.exp(-math.fsum(self.spelling.surprises(symbol)))
        return probability

    def surprises(self, sequence: Sequence[str]) -> list[float]:
        """Return minus the logarithm of the probability of each symbol, and of the end."""
        padded = [BEGIN] * (self.order - 1) + [*sequence, END]
        first = self.order - 1
        return [
            -math.log(self.probability(padded[i], padded[max(0, i - first) : i]))
            for i in range(first, len(padded))
        ]


def word_model(sentences: Sequence[Sequence[str]], *, order: int = 3, letters: int = 5) -> NGrams:
    """Return a model of words: `order` words, and `letters` of a word, are counted together."""
    kinds = {word for sentence in sentences for word in sentence}
    return NGrams(order, sentences, spelling=NGrams(letters, sorted(kinds)))
