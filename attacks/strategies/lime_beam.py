"""Ranks words by a local linear model of the predicted classes, then replaces them in a beam.

Source: Zhu et al., "LimeAttack: Local Explainable Method for Textual Hard-Label
Adversarial Attack", 2024, and the released code. The linear model is that of LIME (Ribeiro, Singh,
Guestrin, "Why Should I Trust You?", 2016) with the settings of its library.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attacks.composition import Context, Propose, Request, SearchEnd, Steps
from attacks.document import Candidate
from attacks.search import descending
from attacks.strategies.hard_label import Words, WordSpace
from attacks.strategies.rounds import Rounds
from text import check_range

KERNEL = 25.0
"""Width of LIME's kernel, for cosine distances times 100."""
MOST = 512
"""Texts of the local model at most."""
_EQUAL = 1e-9
"""Weights nearer than this are ranked by position."""


@dataclass(frozen=True, kw_only=True)
class LimeBeam:
    """Ranks words by classes alone, and stops at the first success.

    The linear model sees about as many texts as the text has words, each with a random number of
    random words gone. Then the words are visited in this order: in each text of the beam the word
    gets all its replacements, in one query. If some reach the goal, the search takes the one with
    the fewest changed words. The next beam has the third of the texts that is nearest to the
    original, the third that is farthest, and a random third.

    Attributes:
        width: texts of the beam.
    """

    width: int = 10
    needs_scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range({"width": self.width}, least=1)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        original = SearchEnd(context.original, context.clean)
        allowed = context.allowed(context.original)
        candidates: list[Candidate] = (yield Propose(context.original, allowed)) if allowed else []
        space = WordSpace.of(context, Rounds(context), candidates)
        if not space.options:
            return original
        beam: list[Words] = [{}]
        for index in (yield from self._order(space)):
            texts = [{**words, index: word} for words in beam for word in space.options[index]]
            won: list[Words] = yield from space.ask(texts)
            if won:
                document = space.document(min(won, key=space.distance))
                return SearchEnd(document, space.rounds.of(document))
            if space.rounds.exhausted:
                break
            admitted = [
                words for words in texts if space.document(words).columns in space.rounds.verdicts
            ]
            beam = self._next(context, sorted([*beam, *admitted], key=space.distance))
        # All that is known of the others is that they fail.
        return original

    def _next(self, context: Context, texts: Sequence[Words]) -> list[Words]:
        """Return the texts of the next beam; `texts` are in the order of their distance."""
        if len(texts) <= self.width:
            return list(texts)
        third = max(1, self.width // 3)
        near, far = texts[:third], texts[-third:] if self.width > 1 else []
        between = texts[third : len(texts) - len(far)]
        drawn = min(len(between), self.width - len(near) - len(far))
        return [*near, *far, *context.random.sample(between, max(drawn, 0))]

    @staticmethod
    def _order(space: WordSpace) -> Generator[Request, Any, list[int]]:
        """Return the words with replacements, in the order of their weights."""
        context, indices = space.context, sorted(space.options)
        document, draw = context.original, context.random
        count = len(document)
        kept = np.ones((min(count, MOST), count))
        for row in range(1, len(kept)):
            # As LIME: a uniform number of words, at least one.
            kept[row, draw.sample(range(count), draw.randint(1, count))] = 0.0
        texts = [
            document.rewrite(dict.fromkeys(np.flatnonzero(row == 0).tolist(), "[UNK]"), document)
            for row in kept
        ]
        # Texts with masked words are no adversarial texts: rounds of their own.
        probes = Rounds(context)
        yield from probes.ask(texts[1:])
        rows = [i for i, text in enumerate(texts) if text.columns in probes.verdicts]
        if probes.exhausted:
            return []
        right = np.array([not probes.of(texts[i]).success for i in rows], dtype=np.float64)
        weights = local_weights(kept[rows], right)
        return [indices[i] for i in descending(weights[indices], _EQUAL)]


def local_weights(kept: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each word in the local linear model, `[N]`.

    It is a ridge regression (penalty 1, the intercept is free), in which a text counts the more,
    the nearer it is to the original.

    Args:
        kept: `[n, N]`, 1 where a text has a word, and 0 where it is gone.
        right: `[n]`, 1 where a text has the class of the original.
    """
    # The cosine of a row with the row of ones.
    distances = 100 * (1 - np.sqrt(kept.mean(axis=1)))
    near = np.sqrt(np.exp(-((distances / KERNEL) ** 2)))
    centred = kept - np.average(kept, axis=0, weights=near)
    target = right - np.average(right, weights=near)
    # The dual form: a long text has more words than texts.
    root = np.sqrt(near)
    scaled = root[:, None] * centred
    dual = np.linalg.solve(scaled @ scaled.T + np.eye(len(scaled)), root * target)
    weights: NDArray[np.float64] = scaled.T @ dual
    return weights
