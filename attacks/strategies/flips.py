"""Flips of words that the gradient finds best, in a beam.

Source: Ebrahimi et al., "HotFlip: White-Box Adversarial Examples for Text Classification", 2018,
sections 3.2 (beam) and 5 (words).
"""

from dataclasses import dataclass

import numpy as np

from attacks.composition import Answers, Context, Estimate, Propose, Query, Reached, Steps
from attacks.document import Candidate, Document
from attacks.search import best, descending
from text import check_range


@dataclass(frozen=True, kw_only=True)
class FlipBeam:
    """Keeps the best few texts, and asks about those flips whose estimated gain is largest.

    Attributes:
        width: texts that are kept, and flips that are asked about in each step.
        flips: words that are replaced at most.
    """

    width: int = 10
    flips: int = 2

    def __post_init__(self) -> None:
        """Raises ValueError for a number out of its range."""
        check_range({"width": self.width, "flips": self.flips}, least=1)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        beam = [(context.original, context.clean)]
        top = Reached(context.original, context.clean)
        for _ in range(self.flips):
            pool: dict[tuple[str, ...], tuple[float, Document, Candidate]] = {}
            for document, judged in beam:
                found: list[Candidate] = yield Propose(document, context.allowed(document))
                if not found:
                    continue
                gains: list[float] = yield Estimate(document, found)
                for one, gain in zip(found, gains, strict=True):
                    if gain > -np.inf:
                        pool.setdefault(one.columns, (judged.score + gain, document, one))
            texts = sorted(pool)
            values = np.array([pool[columns][0] for columns in texts], dtype=np.float64)
            order = descending(values, context.tie)[: self.width]
            if not order:
                break
            chosen = [pool[texts[i]] for i in order]
            answers: Answers = yield Query([one for _, _, one in chosen])
            asked = [one for _, _, one in chosen[: len(answers.judged)]]
            if not asked:
                break
            row = best(asked, answers.judged, context)
            found_best = answers.judged[row]
            if found_best.success or found_best.score > top.judged.score + context.tie:
                top = Reached(asked[row], found_best)
            if found_best.success or answers.exhausted:
                break
            beam = [
                (document.accept(one), judged)
                for (_, document, one), judged in zip(chosen, answers.judged, strict=False)
            ]
        return top
