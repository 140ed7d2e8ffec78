"""Removes words as long as the prediction stays.

Source: Feng et al., "Pathologies of Neural Models Make Interpretations Difficult", 2018, section 2,
with the beam of its appendix.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.composition import Answers, Context, Propose, Query, Reached, Steps
from attacks.document import Candidate, Document
from attacks.search import descending
from text import check_range


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """Removes the least important words, one at a time, in several orders at once.

    The goal is `attacks.goals.Unchanged`. The importance of a word is what the score loses without
    it; the paper takes a gradient for that, which needs fewer queries.

    Attributes:
        width: texts that are kept in each step.
    """

    width: int = 5
    refines: ClassVar[bool] = True
    """It searches on after its first success, see `Search`."""

    def __post_init__(self) -> None:
        """Raises ValueError for a number out of its range."""
        check_range({"width": self.width}, least=1)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        beam = [context.original]
        top = Reached(context.original, context.clean)
        exhausted = False
        while not exhausted:
            proposed: dict[tuple[str, ...], tuple[Document, Candidate]] = {}
            for document in beam:
                if len(document) < 2:
                    continue
                found: list[Candidate] = yield Propose(document, context.allowed(document))
                for one in found:
                    proposed.setdefault(one.columns, (document, one))
            if not proposed:
                break
            pool = sorted(proposed)
            answers: Answers = yield Query([proposed[columns][1] for columns in pool])
            exhausted = answers.exhausted
            rows = [i for i, judged in enumerate(answers.judged) if judged.success]
            if not rows:
                break
            values = np.array([answers.judged[i].score for i in rows], dtype=np.float64)
            order = [rows[i] for i in descending(values, context.tie)][: self.width]
            top = Reached(proposed[pool[order[0]]][1], answers.judged[order[0]])
            beam = [proposed[pool[i]][0].accept(proposed[pool[i]][1]) for i in order]
        return top
