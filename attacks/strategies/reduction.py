"""Removes words as long as the prediction does not change.

Source: Feng et al., "Pathologies of Neural Models Make Interpretations Difficult", 2018, section 2,
with the beam of its appendix, as their code has it.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from attacks.composition import (
    Answers,
    Context,
    Propose,
    Query,
    Request,
    SearchEnd,
    Steps,
    Verdict,
    Weigh,
)
from attacks.document import Candidate, Document, count_words
from attacks.search import NEARLY, Greedy, Item, descending
from text import check_choice, check_range

Importance = Literal["gradient", "delete"]


class _Shorter(NamedTuple):
    """A text, the candidate without one of its words, and the weight of that word."""

    document: Document
    candidate: Candidate
    weight: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """Removes the least important words, one at a time, in several orders at once.

    The goal is `attacks.goals.Unchanged`. By the gradient, the victim is asked only about the texts
    without one of the `width` words of least weight in all texts of the beam: at most `width`
    queries for each word. Without gradients each word is left out in turn, and the texts with the
    highest score are kept: about `width` * n^2 / 2 queries for n words.

    Attributes:
        width: texts that are kept in each step.
        importance: `gradient`, by the victim's gradient where it has one; `delete`, by the
            loss of the score without the word.
    """

    width: int = 5
    importance: Importance = "gradient"
    refines: ClassVar[bool] = True
    """It searches on after its first success, see `Search`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range, or another importance."""
        check_range({"width": self.width}, least=1)
        check_choice("importance", self.importance, get_args(Importance))

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        beam = [context.original]
        top = SearchEnd(context.original, context.clean)
        weighs = context.gradients and self.importance == "gradient"
        exhausted = False
        while not exhausted:
            proposed: dict[tuple[str, ...], _Shorter] = {}
            for document in beam:
                if len(document) < 2:
                    continue
                # A search is a generator: the engine answers all samples of a round together.
                weights: list[float] = (yield Weigh(document)) if weighs else [0.0] * len(document)
                candidates: list[Candidate] = yield Propose(document, context.allowed(document))
                for candidate in candidates:
                    shorter = _Shorter(document, candidate, weights[candidate.index])
                    proposed.setdefault(candidate.columns, shorter)
            if not proposed:
                break
            # Without gradients every deletion is asked about.
            pool = sorted(proposed)
            if weighs:  # the texts without a word of least weight
                losses = np.array([proposed[columns].weight for columns in pool])
                tie = NEARLY * losses.max(initial=0.0)
                pool = [pool[i] for i in descending(-losses, tie)[: self.width]]
            answers: Answers = yield Query([proposed[columns].candidate for columns in pool])
            exhausted = answers.exhausted
            rows = [i for i, judged in enumerate(answers.judged) if judged.success]
            if not rows:
                break
            values = [answers.judged[i].score for i in rows]
            order = [rows[i] for i in descending(values, context.tie)][: self.width]
            top = SearchEnd(proposed[pool[order[0]]].candidate, answers.judged[order[0]])
            texts = [proposed[pool[i]] for i in order]
            beam = [text.document.accept(text.candidate) for text in texts]
        return top


@dataclass(frozen=True, kw_only=True)
class RankedReduction(Greedy):
    """Removes words in one fixed order, as TextAttack 0.3.11 does (`InputReduction`).

    The score of a text is the share of the words that are gone, plus the probability of the gold
    class divided by the number of words; it is 0 where the prediction has changed. Words keep the
    number that they had in the original, although those before them are gone.
    """

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        original, clean = context.original, context.clean
        judged = {original.columns: clean}
        ranked = replace(context, clean=_reduced(original, clean, original))
        # The greedy search runs inside; its verdicts are replaced on the way.
        inner: Steps = super().steps(ranked)
        answer: Any = None
        while True:
            try:
                request: Request = inner.send(answer)
            except StopIteration as end:
                item: Item = end.value.item
                return SearchEnd(item, judged[item.columns])
            answer = yield request
            if isinstance(request, Query):
                # Not strict: the budget may have cut the query.
                pairs = list(zip(request.items, answer.judged, strict=False))
                judged |= {item.columns: row for item, row in pairs}
                rows = [_reduced(item, row, original) for item, row in pairs]
                answer = Answers(rows, answer.exhausted)


def _reduced(item: Item, judged: Verdict, original: Document) -> Verdict:
    """Return the reference's verdict about a text: its score, and never the goal."""
    count = max(len(original), 1)
    gone = count - sum(map(count_words, item.columns))
    score = min(max(gone / count, 0.0) + judged.score / count, 1.0) if judged.success else 0.0
    # Never a success: the greedy search would stop at the first one, before the shortest.
    return Verdict(score, success=False, prediction=judged.prediction)
