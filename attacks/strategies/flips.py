"""Flips of words that the gradient finds best, in a beam.

Source: Ebrahimi et al., "HotFlip: White-Box Adversarial Examples for Text Classification", 2018,
sections 3.2 (beam) and 5 (words).
"""

from dataclasses import dataclass

import numpy as np

from attacks.composition import Answers, Context, EstimateGains, Propose, Query, SearchEnd, Steps
from attacks.document import Candidate, Document
from attacks.search import descending, improve
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
        """Raise ValueError for a number out of its range."""
        check_range({"width": self.width, "flips": self.flips}, least=1)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        beam = [(context.original, context.clean)]
        top = SearchEnd(context.original, context.clean)
        for _ in range(self.flips):
            pool: dict[tuple[str, ...], tuple[float, Document, Candidate]] = {}
            for document, judged in beam:
                candidates: list[Candidate] = yield Propose(document, context.allowed(document))
                if not candidates:
                    continue
                gains: list[float] = yield EstimateGains(document, candidates)
                for candidate, gain in zip(candidates, gains, strict=True):
                    # Minus infinity: the candidate has another number of tokens, or is cut off.
                    if gain > -np.inf:
                        # The first document that leads to a text keeps it.
                        pool.setdefault(
                            candidate.columns, (judged.score + gain, document, candidate)
                        )
            # Sorted by text, so that ties do not depend on the order of proposals.
            texts = sorted(pool)
            order = descending([pool[columns][0] for columns in texts], context.tie)[: self.width]
            if not order:
                break
            chosen = [pool[texts[i]] for i in order]
            answers: Answers = yield Query([candidate for _, _, candidate in chosen])
            answered = [candidate for _, _, candidate in chosen[: len(answers.judged)]]
            if not answered:
                break
            former, top = top, improve(top, answered, answers.judged, context)
            # The clean text itself reaches some goals: only a new text ends the search.
            if (top is not former and top.judged.success) or answers.exhausted:
                break
            beam = [
                (document.accept(candidate), judged)
                # Not strict: the budget may have cut the query.
                for (_, document, candidate), judged in zip(chosen, answers.judged, strict=False)
            ]
        return top
