"""The rounds of a search: many texts at once, each text asked about once, the best one kept."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from attacks.composition import Answers, Context, Judged, Query, Reached, Request
from attacks.document import Candidate, Document
from attacks.search import best

Item = Document | Candidate


@dataclass(slots=True)
class Rounds:
    """The questions and answers of one search.

    Attributes:
        context: of the search.
        top: the best text so far; the original at first.
        known: answers by texts.
        exhausted: True if the budget is used up.
    """

    context: Context
    top: Reached = field(init=False)
    known: dict[tuple[str, ...], Judged] = field(init=False)
    exhausted: bool = False

    def __post_init__(self) -> None:
        """Begins with the original."""
        self.top = Reached(self.context.original, self.context.clean)
        self.known = {self.context.original.columns: self.context.clean}

    def over(self) -> bool:
        """Returns True if the goal is reached, or the budget used up."""
        return self.exhausted or self.top.judged.success

    def ask(self, items: Iterable[Item]) -> Generator[Request, Answers, None]:
        """Asks about those texts that were not asked about before, all in one query."""
        new = list({one.columns: one for one in items if one.columns not in self.known}.values())
        if not new or self.exhausted:
            return
        answers: Answers = yield Query(new)
        self.exhausted = answers.exhausted
        asked = new[: len(answers.judged)]
        if not asked:
            return
        self.known |= {
            one.columns: judged for one, judged in zip(asked, answers.judged, strict=True)
        }
        row = best(asked, answers.judged, self.context)
        judged = answers.judged[row]
        if judged.success or judged.score > self.top.judged.score + self.context.tie:
            self.top = Reached(asked[row], judged)

    def answered(self, items: Iterable[Item]) -> list[Item]:
        """Returns those items that have an answer: all of them until the budget ends."""
        return [one for one in items if one.columns in self.known]

    def of(self, item: Item) -> Judged:
        """Returns the answer to a text that was asked about."""
        return self.known[item.columns]


def drawn(random: Random, weights: Iterable[float]) -> int | None:
    """Draws a position in proportion to weights of at least 0; None if all are 0.

    Args:
        random: the numbers of the sample.
        weights: of each position.
    """
    sums = list(accumulate(weights))
    if not sums or sums[-1] <= 0:
        return None
    point = random.random() * sums[-1]
    return next(i for i, total in enumerate(sums) if total > point)
