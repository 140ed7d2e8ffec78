"""Adds several words to a text, chosen once or drawn; `attacks.search.Beam` chooses each anew."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from attacks.composition import Context, Propose, Request, SearchEnd, Steps
from attacks.document import Candidate, Document
from attacks.search import descending
from attacks.strategies.rounds import Rounds

_TOGETHER = 10
"""Texts of growing length in one query: few of them are needed in most cases."""


@dataclass(frozen=True, kw_only=True)
class RankedAppends:
    """Asks about each word of the pool once, then adds the best one, the best two, and so on.

    Attributes:
        length: words that are added at most.
    """

    length: int = 10

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds, original = Rounds(context), context.original
        pool: list[Candidate] = yield Propose(original, context.allowed(original))
        yield from rounds.ask(pool)
        if rounds.over():
            return rounds.top
        least = context.clean.score + context.tie
        # In the order of their texts: rounding must not choose among words that gain the same.
        gains = [item for item in pool if rounds.of(item).score > least]
        gains.sort(key=lambda item: item.columns)
        values = [rounds.of(item).score for item in gains]
        texts: list[Document] = []
        for best in [gains[i] for i in descending(values, context.tie)[: self.length]]:
            current = texts[-1] if texts else original
            front = best.index < len(original)
            pool = yield Propose(current, context.allowed(current))
            # The same word may be added on both sides.
            texts += [
                current.accept(item)
                for item in pool
                if item.word == best.word and (item.index < len(current)) == front
            ]
        return (yield from _shortest(rounds, texts))


@dataclass(frozen=True, kw_only=True)
class RandomAppends:
    """Adds drawn words of the pool; classes of the victim are enough.

    Attributes:
        length: words that are added at most.
        tries: draws, all in one query.
    """

    length: int = 10
    tries: int = 10
    needs_scores: ClassVar[bool] = False
    refines: ClassVar[bool] = True
    """See `Search`."""

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds, draws = Rounds(context), list[list[Document]]()
        for _ in range(self.tries):
            texts, current = list[Document](), context.original
            for _ in range(self.length):
                pool: list[Candidate] = yield Propose(current, context.allowed(current))
                if not pool:
                    break
                current = current.accept(context.random.choice(pool))
                texts.append(current)
            draws += [texts] if texts else []
        yield from rounds.ask(texts[-1] for texts in draws)
        for texts in draws:
            # The budget may have left texts without a verdict.
            if rounds.reached(texts[-1]):
                return (yield from _shortest(rounds, texts))
        return rounds.top


def _shortest(rounds: Rounds, texts: Sequence[Document]) -> Generator[Request, Any, SearchEnd]:
    """Return the first of some texts that reaches the goal; else the best text so far."""
    # A shorter text may succeed where a longer one was found: the first success has the fewest
    # words.
    for start in range(0, len(texts), _TOGETHER):
        part = texts[start : start + _TOGETHER]
        yield from rounds.ask(part)
        for text in part:
            if rounds.reached(text):
                return SearchEnd(text, rounds.of(text))
    return rounds.top
