"""Tries whole texts one after the other, then looks for the fewest changed words."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from attacks.composition import Context, Propose, Request, SearchEnd, Steps
from attacks.document import Candidate
from attacks.search import Greedy, descending
from attacks.strategies.rounds import Rounds


@dataclass(frozen=True, kw_only=True)
class WholeTexts:
    """Takes the first text that reaches the goal; else the best one.

    A text with all words changed that succeeds is brought nearer to the original: one query says
    what each word adds, then the words that add least are put back, as many as the goal allows
    (bisection). For a victim whose score is a sum over words, no set of fewer words reaches the
    goal with the same change. If no such text succeeds, the words are changed one by one, each by
    its best change (`attacks.search.Greedy`), unless no text has moved the score at all: then the
    victim gives no scores, or does not see the changes. With constraints they are changed in any
    case, as few whole texts may be allowed.

    Attributes:
        stages: parts of the transformation, which are texts; stage 0 is about single words.
        words: True if the parts can also change some of the words.
    """

    stages: int
    words: bool = True
    needs_scores: ClassVar[bool] = False
    refines: ClassVar[bool] = True
    """See `Search`."""

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds, original = Rounds(context), context.original
        indices = context.allowed(original)
        for stage in range(1, self.stages + 1) if indices else ():
            candidates: list[Candidate] = yield Propose(original, indices, stage)
            for candidate in candidates:
                yield from rounds.ask([candidate])
                if rounds.top.judged.success and self.words:
                    return (yield from self._with_fewer(rounds, indices, stage))
                if rounds.over():
                    return rounds.top
        scores = [judged.score for judged in rounds.verdicts.values()]
        # Constraints may have left out whole texts, and leave single words.
        blind = not context.attack.constraints and max(scores) - min(scores) <= context.tie
        if not self.words or blind:
            return rounds.top
        end: SearchEnd = yield from Greedy(ranking="delete").steps(context)
        better = end.judged.success or end.judged.score > rounds.top.judged.score
        return end if better else rounds.top

    @staticmethod
    def _with_fewer(
        rounds: Rounds, indices: Sequence[int], stage: int
    ) -> Generator[Request, Any, SearchEnd]:
        """Return the text with the fewest words changed that still reaches the goal."""
        reached, original = rounds.top, rounds.context.original

        def propose(words: Sequence[int]) -> Generator[Request, Any, Candidate | None]:
            proposed: list[Candidate] = (yield Propose(original, words, stage)) if words else []
            # The change is about the whole text: nothing can be put back.
            same = proposed and proposed[0].columns == reached.item.columns
            return proposed[0] if proposed and not same else None

        alone: dict[int, Candidate] = {}
        for index in indices:
            candidate = yield from propose([i for i in indices if i != index])
            if candidate is not None:
                alone[index] = candidate
        yield from rounds.ask(alone.values())
        answered = [i for i in alone if alone[i].columns in rounds.verdicts]
        verdicts = [rounds.of(alone[i]) for i in answered]
        ranked = descending([judged.score for judged in verdicts], rounds.context.tie)
        order = [answered[k] for k in sorted(ranked, key=lambda k: not verdicts[k].success)]
        # Puts back the first `low` words; with `high` of them the goal is missed.
        low, high = 0, len(order) + 1
        while high - low > 1:
            middle = (low + high) // 2
            gone = set(order[:middle])
            candidate = yield from propose([i for i in indices if i not in gone])
            if candidate is None:
                high = middle
                continue
            yield from rounds.ask([candidate])
            if rounds.reached(candidate):
                low, reached = middle, SearchEnd(candidate, rounds.of(candidate))
            else:
                high = middle
        return reached
