"""Asks once about the texts that a transformation proposes."""

from dataclasses import dataclass
from typing import ClassVar

from attacks.composition import Context, Propose, SearchEnd, Steps
from attacks.strategies.rounds import Rounds


@dataclass(frozen=True, kw_only=True)
class OneRound:
    """Takes the best of all candidates of the whole text."""

    needs_scores: ClassVar[bool] = False

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds = Rounds(context)
        # Stage 1: the candidates are about the text, also one without words.
        yield from rounds.ask((yield Propose(context.original, (), stage=1)))
        end: SearchEnd = rounds.top
        return end
