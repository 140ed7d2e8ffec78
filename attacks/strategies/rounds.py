"""The rounds of a search: many texts at once, each text asked about once, the best one kept."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from attacks.composition import Answers, Context, Query, Request, SearchEnd, Verdict
from attacks.search import Item, improve


@dataclass(slots=True)
class Rounds:
    """The questions and answers of one search.

    Attributes:
        context: of the search.
        top: the best text so far; the original at first.
        verdicts: answers by texts.
        exhausted: True if the budget is used up.
    """

    context: Context
    top: SearchEnd = field(init=False)
    verdicts: dict[tuple[str, ...], Verdict] = field(init=False)
    exhausted: bool = False

    def __post_init__(self) -> None:
        """Begin with the original."""
        self.top = SearchEnd(self.context.original, self.context.clean)
        self.verdicts = {self.context.original.columns: self.context.clean}

    def over(self) -> bool:
        """Return True if the goal is reached, or the budget used up."""
        return self.exhausted or self.top.judged.success

    def ask(self, items: Iterable[Item]) -> Generator[Request, Answers, None]:
        """Ask about those texts that were not asked about before, all in one query."""
        # Texts of former rounds, and equal ones of this round, are asked about once.
        new = list(
            {item.columns: item for item in items if item.columns not in self.verdicts}.values()
        )
        # An exhausted budget answers nothing more.
        if not new or self.exhausted:
            return
        answers: Answers = yield Query(new)
        self.exhausted = answers.exhausted
        answered = new[: len(answers.judged)]
        if not answered:
            return
        self.verdicts |= {
            item.columns: judged for item, judged in zip(answered, answers.judged, strict=True)
        }
        self.top = improve(self.top, answered, answers.judged, self.context)

    def answered(self, items: Iterable[Item]) -> list[Item]:
        """Return those items that have an answer: all of them until the budget ends."""
        return [item for item in items if item.columns in self.verdicts]

    def reached(self, item: Item) -> bool:
        """Return True if a text was asked about, and reaches the goal."""
        return item.columns in self.verdicts and self.of(item).success

    def of(self, item: Item) -> Verdict:
        """Return the answer to a text that was asked about."""
        return self.verdicts[item.columns]


def draw_index(random: Random, weights: Iterable[float]) -> int | None:
    """Draw a position in proportion to weights of at least 0; None if all are 0."""
    sums = list(accumulate(weights))
    if not sums or sums[-1] <= 0:
        return None
    point = random.random() * sums[-1]
    # Strictly: an index of weight 0 is never drawn, not even at point 0.
    return next(i for i, total in enumerate(sums) if total > point)
