"""Ranks replacements, insertions and merges of all places once, and takes one after the other.

Source: Li et al., "Contextualized Perturbation for Textual Adversarial Attack" (CLARE), 2021,
section 2.3, and the released code, which says which changes rule others out.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attacks.composition import Answers, Context, Propose, Query, Request, SearchEnd, Steps, Verdict
from attacks.document import Candidate, Document
from attacks.search import best, descending

REPLACE, INSERT, MERGE = 1, 2, 3
"""Actions: the stages of `attacks.transformations.Actions`, in their order."""
_TAKEN = {1: REPLACE, 0: INSERT, 2: MERGE}
"""The action of a candidate, by the number of words that it takes."""
_RULED_OUT = {
    REPLACE: ((MERGE, -1), (MERGE, 0)),
    INSERT: ((MERGE, -1), (INSERT, -1), (INSERT, 1)),
    MERGE: ((INSERT, 1), (REPLACE, 0), (REPLACE, 1), (MERGE, -1), (MERGE, 1)),
}
"""What an action rules out afterwards, with the distance from its place."""

Target = tuple[int, int]
"""Number of a word of the original and an action: the word is replaced, it is merged with the next
one, or another word is inserted before it (at the end of the text: behind the last one)."""


@dataclass(frozen=True, kw_only=True)
class RankedActions:
    """Takes the places in the order of what their best action gains in the original text.

    Each target is tried once: the candidates are made anew in the current text, and the best
    one is taken if it improves on that text. The transformation is `Actions` of three parts: it
    replaces words, inserts words behind them, and merges them with the next ones. Pre-constraints
    are asked about replaced words alone.
    """

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        original, top = context.original, SearchEnd(context.original, context.clean)
        texts = {original.column_of(i) for i in context.allowed(original)}
        inside = [i for i in range(len(original)) if original.column_of(i) in texts]
        pool: list[Candidate] = []
        for action in _RULED_OUT:
            indices = context.allowed(original) if action == REPLACE else inside
            if indices:
                pool += yield Propose(original, indices, action)
        if not pool:
            return top
        answers: Answers = yield Query(pool)
        if not answers.judged:
            return top
        row = best(pool[: len(answers.judged)], answers.judged, context)
        if answers.judged[row].success:
            # The first place has this candidate, and would find it again in the same text.
            return SearchEnd(pool[row], answers.judged[row])
        current, exhausted = original, answers.exhausted
        ruled_out: set[Target] = set()
        for target in self._order(context, pool, answers.judged):
            if exhausted:
                break
            if target in ruled_out:
                continue
            candidates: list[Candidate] = yield from self._candidates(context, current, target)
            if not candidates:
                continue
            answers = yield Query(candidates)
            exhausted = answers.exhausted
            if not answers.judged:
                break
            row = best(candidates[: len(answers.judged)], answers.judged, context)
            judged = answers.judged[row]
            if judged.success:
                return SearchEnd(candidates[row], judged)
            if judged.score > top.judged.score + context.tie:
                top = SearchEnd(candidates[row], judged)
                current = current.accept(candidates[row])
                index, action = target
                ruled_out |= {(index + step, other) for other, step in _RULED_OUT[action]}
        return top

    @staticmethod
    def _order(
        context: Context, pool: Sequence[Candidate], judged: Sequence[Verdict]
    ) -> list[Target]:
        """Return the targets whose best candidate improves on the original, the best first."""
        scores: dict[Target, float] = {}
        # Not strict: the budget may have cut the query.
        for candidate, answer in zip(pool, judged, strict=False):
            target = candidate.index, _TAKEN[candidate.width]
            scores[target] = max(answer.score, scores.get(target, -np.inf))
        least = context.clean.score + context.tie
        targets = sorted(target for target, score in scores.items() if score > least)
        values = np.array([scores[target] for target in targets], dtype=np.float64)
        return [targets[i] for i in descending(values, context.tie)]

    @staticmethod
    def _candidates(
        context: Context, current: Document, target: Target
    ) -> Generator[Request, Any, list[Candidate]]:
        """Return the candidates of a target in the current text; none where it is gone."""
        index, action = target
        # Earlier actions may have moved or merged the words.
        at, following = current.position(index), current.position(index + 1)
        if action == INSERT:
            at, after = current.position(index - 1), at
            if at is None and after is not None:  # the word before is merged with another one
                at = after - 1
        if at is None or (action == MERGE and following != at + 1):
            return []
        if action == REPLACE and at not in context.allowed(current):
            return []
        indices = [at, at + 1] if action == MERGE else [at]
        proposed: list[Candidate] = yield Propose(current, indices, action)
        # An inserted word has the number of the place after the word.
        number = at + 1 if action == INSERT else at
        return [candidate for candidate in proposed if candidate.index == number]
