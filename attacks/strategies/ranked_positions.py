"""Edits one character after the other, at the positions that matter most.

Source: Abad Rocamora et al., "Revisiting Character-level Adversarial Attacks for Language Models",
2024 (Charmer), and the released code.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attacks.composition import Context, Propose, Request, SearchEnd, Steps
from attacks.document import Candidate, Document
from attacks.search import descending, improve
from attacks.strategies.rounds import Rounds
from attacks.transformations.single_edits import positions_of, probe
from text import check_range

CHARACTERS = 100
"""Characters of a usual pool, to estimate the memory of a search."""


@dataclass(frozen=True, kw_only=True)
class RankedPositions:
    """Ranks the positions by a space at each, and takes the best edit at the first of them.

    Each step asks about all edits at its positions (`attacks.transformations.SingleEdits`). The
    search ends with the first success, or when no edit improves on the text so far.

    Attributes:
        edits: characters that are changed at most.
        positions: positions of each step; all if None: then one edit is an exhaustive search.
    """

    edits: int = 10
    positions: int | None = 20

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range({"edits": self.edits, "positions": self.positions}, least=1)

    def texts(self, document: Document) -> int:
        """Return about how many texts a search asks about."""
        places = sum(2 * len(text) + 1 for text in document.columns)
        tried = places if self.positions is None else min(places, self.positions)
        return self.edits * (places + tried * CHARACTERS)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        current, rounds = context.original, Rounds(context)
        top = SearchEnd(current, context.clean)
        columns = _open_columns(context)
        for _ in range(self.edits):
            places = [at for column in sorted(columns) for at in positions_of(current, column)]
            places = yield from self._rank(context, rounds, current, places)
            candidates: list[Candidate] = (
                (yield Propose(current, places, stage=1)) if places else []
            )
            yield from rounds.ask(candidates)
            answered = rounds.answered(candidates)
            if not answered:
                break
            verdicts = [rounds.of(candidate) for candidate in answered]
            former, top = top, improve(top, answered, verdicts, context)
            # Without an improvement, the next step would ask about the same texts again.
            if top is former or top.judged.success or rounds.exhausted:
                break
            current = current.remake(top.item.columns)
        return top

    def _rank(
        self, context: Context, rounds: Rounds, document: Document, places: list[int]
    ) -> Generator[Request, Any, list[int]]:
        """Return the positions that matter most; none if the budget ends before they are known."""
        if self.positions is None or len(places) <= self.positions:
            return places
        probes = [probe(document, at) for at in places]
        yield from rounds.ask(probes)
        if len(rounds.answered(probes)) < len(probes):
            return []
        values = np.array([rounds.of(one).score for one in probes], dtype=np.float64)
        return [places[i] for i in descending(values, context.tie)[: self.positions]]


def _open_columns(context: Context) -> set[int]:
    """Return the numbers of the texts that may change; one without a word still has characters."""
    document = context.original
    if len(document.columns) == 1:
        return {0}
    columns = {document.column_of(i) for i in context.allowed(document)}
    for blank in {0, 1} - {column for column, _, _ in document.spans}:
        # Pre-constraints are about words: a word there says if its text may change.
        texts = ("word" if i == blank else text for i, text in enumerate(document.columns))
        probed = document.remake(tuple(texts))
        columns |= {c for i in context.allowed(probed) if (c := probed.column_of(i)) == blank}
    return columns
