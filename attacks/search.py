"""Searches: greedy with word importance ranking, beam, and random.

Each is written for one sample; the engine runs many at once.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from attacks.composition import (
    Answers,
    Consult,
    Context,
    Propose,
    Query,
    Request,
    SearchEnd,
    Steps,
    Verdict,
    Weigh,
)
from attacks.document import Candidate, Document
from attacks.recipe_settings import Ranking
from text import check_range

Item = Document | Candidate
Result = TypeVar("Result")

SHORTLIST = 2
"""Candidates of a word that a surrogate leaves over: the fewest queries on SST-2's validation."""
NEARLY = 1e-4
"""Gradients nearer than this, as a share of the largest, count as equal; see `goals.NEAR`."""


def _key(item: Item) -> tuple[str, ...]:
    return item.columns


def best(items: Sequence[Item], judged: Sequence[Verdict], context: Context) -> int:
    """Return the candidate of highest score; of nearly equal ones the first by its text.

    Candidates that reach the goal come first; the reference looks at the score alone.
    """
    rows: Sequence[int] = range(len(judged))
    if not context.reference:
        # A success of lower score beats a failure of higher score.
        rows = [i for i in rows if judged[i].success] or rows
    top = max(judged[i].score for i in rows) - context.tie
    return min((i for i in rows if judged[i].score >= top), key=lambda i: items[i].columns)


def improve(
    top: SearchEnd, items: Sequence[Item], judged: Sequence[Verdict], context: Context
) -> SearchEnd:
    """Return the best of some texts if it reaches the goal or improves on `top`, else `top`."""
    row = best(items, judged, context)
    better = judged[row].success or judged[row].score > top.judged.score + context.tie
    return SearchEnd(items[row], judged[row]) if better else top


def descending(scores: Sequence[float] | NDArray[np.float64], tie: float | None) -> list[int]:
    """Return positions by value, the largest first; values nearer than `tie` by position.

    None takes the reference's order, the unstable one of numpy's default sort.
    """
    values = np.asarray(scores, dtype=np.float64)
    if tie is None:
        return [int(i) for i in (-values).argsort()]
    order = [int(i) for i in np.argsort(-values, kind="stable")]
    result: list[int] = []
    start = 0
    for end in range(1, len(order) + 1):
        # A run of values, each within `tie` of the first: ordered by position.
        if end == len(order) or values[order[start]] - values[order[end]] > tie:
            result += sorted(order[start:end])
            start = end
    return result


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Ranks the words once, then replaces one after the other.

    It takes the candidate of highest score, if that improves on the text so far; if some reach the
    goal, the one of these with the highest similarity. If that fails, it takes a text of the
    ranking that reaches the goal, if there is one.

    With a surrogate it searches twice at most. First the surrogate ranks the words, and the victim
    is asked about the few candidates of a word that have the highest score of the surrogate. Only
    if that fails, the search begins again without the surrogate: so no success is lost.

    Attributes:
        ranking: weight of a word: score without it (`delete`, TextFooler), with `[UNK]` in
            its place (`unk`, DeepWordBug), that times the best replacement's score
            (`weighted-saliency`, PWWS), norm of the gradient (`gradient`, A2T), or `random`.
        shortlist: candidates of a word that the surrogate leaves over; `SHORTLIST` if None.
    """

    ranking: Ranking = "delete"
    shortlist: int | None = None
    consults: ClassVar[bool] = True
    """It may have a surrogate, see `Attack`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range({"shortlist": self.shortlist}, least=1)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        first = SearchEnd(context.original, context.clean)
        if context.surrogate is not None:
            state = context.random.getstate()
            # Its queries are free: they rank better than its gradient.
            free: Ranking = "delete" if self.ranking in ("gradient", "random") else self.ranking
            ranking = replace(self, ranking=free)._order(context.surrogate)
            order, _ = yield from _consulting(ranking)
            first, exhausted = yield from self._replace(context, order, context.surrogate)
            if first.judged.success or exhausted:
                return first
            # The draws of a search without surrogate: none of its successes is lost.
            context.random.setstate(state)
        order, exhausted = yield from self._order(context)
        if exhausted:
            return context.ranked or first
        end, _ = yield from self._replace(context, order)
        if context.ranked is not None and not end.judged.success:
            return context.ranked
        nearer = first.judged.score > end.judged.score + context.tie
        return first if nearer and not end.judged.success else end

    def _replace(
        self, context: Context, order: Sequence[int], surrogate: Context | None = None
    ) -> Generator[Request, Any, tuple[SearchEnd, bool]]:
        """Replace words in their order, from the shortlist of a surrogate if there is one.

        Returns the end of the search, and True if the budget is used up.
        """
        reference = context.reference
        current, standing = context.original, context.clean
        reached: Item = current
        exhausted = False
        for original_index, stage in self._visits(order):
            if exhausted:
                break
            # Replacements may split or merge words: the number of a word changes.
            index = original_index if reference else current.position(original_index)
            if index is None:
                continue
            candidates: list[Candidate] = yield Propose(current, [index], stage)
            if not candidates:
                continue
            if surrogate is not None:
                candidates = yield from self._select(surrogate, candidates)
            answers: Answers = yield Query(candidates)
            judged, exhausted = answers
            if not judged:
                break
            # The budget may have cut the query: later candidates have no verdict.
            judged_candidates = candidates[: len(judged)]
            chosen = best(judged_candidates, judged, context)
            # Rounding is no improvement.
            improves = judged[chosen].score > standing.score + context.tie
            if judged[chosen].success and (improves or not reference):
                last = _most_similar(judged_candidates, judged, chosen, reference=reference)
                return SearchEnd(judged_candidates[last], judged[last]), exhausted
            if not improves:
                continue
            standing, reached = judged[chosen], judged_candidates[chosen]
            current = current.accept(judged_candidates[chosen], mark_all=reference)
        return SearchEnd(reached, standing), exhausted

    def _select(
        self, surrogate: Context, candidates: list[Candidate]
    ) -> Generator[Request, Any, list[Candidate]]:
        """Return the shortlist of the candidates of a word, in their order."""
        size = self.shortlist or SHORTLIST
        if len(candidates) <= size:
            return candidates
        answers: Answers = yield Consult(candidates)
        by_text = sorted(range(len(candidates)), key=lambda i: candidates[i].columns)
        values = np.array([answers.judged[i].score for i in by_text], dtype=np.float64)
        kept = {by_text[i] for i in descending(values, surrogate.tie)[:size]}
        return [candidate for i, candidate in enumerate(candidates) if i in kept]

    def _visits(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Return the words to visit, each with the stage of the transformation."""
        return [(index, 0) for index in order]

    def _order(self, context: Context) -> Generator[Request, Any, tuple[list[int], bool]]:
        import torch

        document = context.original
        indices = context.allowed(document)
        if not indices:
            return [], False
        if self.ranking == "random":
            # The sample's own generator: the order does not depend on other samples.
            context.random.shuffle(indices)
            return indices, False
        if self.ranking == "gradient":
            weights: list[float] = yield Weigh(document)
            # Words behind the longest text of the victim change nothing.
            indices = [i for i in indices if weights[i] > -np.inf]
            values = np.array([weights[i] for i in indices], dtype=np.float64)
            # Gradients have no scale of their own: the tie is relative to the largest.
            tie = None if context.reference else NEARLY * values.max(initial=0.0)
            return [indices[i] for i in descending(values, tie)], False
        reference = context.reference
        if self.ranking != "delete":
            probes = [document.replace(i, "[UNK]") for i in indices]
        elif context.attack.compat.keeps_space_of_deleted:  # leaves the space before the last word
            probes = [document.replace(i, "") for i in indices]
        else:
            probes = [document.delete(i) for i in indices]
        answers: Answers = yield Query(probes)
        # The score without the word, not the drop: the largest is ranked first.
        values = np.array([judged.score for judged in answers.judged], dtype=np.float64)
        exhausted = answers.exhausted
        # Not strict: the budget may have cut the query.
        context.salience = dict(zip(indices, (values - context.clean.score).tolist(), strict=False))
        if self.ranking == "weighted-saliency" and not exhausted:
            gains, exhausted = yield from self._gains(context, indices)
            if not reference and context.attack.goal.score == "margin" and context.scale > 0:
                # A softmax of margins would depend on their scale. The paper's is one of
                # probabilities, which are no larger than 1.
                values = values / context.scale
            # The reference has single precision here; its ties keep their order.
            precision = torch.float32 if reference else torch.float64
            saliency = torch.softmax(torch.from_numpy(values).to(precision), dim=0)
            # PWWS: the softmax of the saliency times the best gain of the word.
            values = saliency.numpy() * gains
        # An incomplete ranking would order the words by their position.
        if len(values) < len(indices):  # the ranking used up the budget
            return [], True
        tie = context.tie if self.ranking != "weighted-saliency" else context.tie / len(values)
        tie = None if reference else tie
        return [indices[i] for i in descending(values, tie)], exhausted

    @staticmethod
    def _gains(
        context: Context, indices: Sequence[int]
    ) -> Generator[Request, Any, tuple[NDArray[np.float64], bool]]:
        """Return the best score of the replacements of each word."""
        candidates: list[Candidate] = yield Propose(context.original, indices)
        gains = dict.fromkeys(indices, 0.0)
        exhausted = False
        if candidates:
            answers: Answers = yield Query(candidates)
            exhausted = answers.exhausted
            best_of: dict[int, float] = {}
            # Not strict: the budget may have cut the query.
            for candidate, judged in zip(candidates, answers.judged, strict=False):
                # A word without candidates gains nothing.
                best_of[candidate.index] = max(judged.score, best_of.get(candidate.index, -np.inf))
            if answers.judged and not context.reference:
                row = best(candidates[: len(answers.judged)], answers.judged, context)
                # These texts keep all constraints: a success among them must not be lost.
                if answers.judged[row].success:
                    context.ranked = SearchEnd(candidates[row], answers.judged[row])
            clean = 0.0 if context.reference else context.clean.score
            gains |= {i: score - clean for i, score in best_of.items()}
        return np.array([gains[i] for i in indices]), exhausted


def _consulting(ranking: Generator[Request, Any, Result]) -> Generator[Request, Any, Result]:
    """Send the queries of a ranking to the surrogate."""
    answer: Any = None
    while True:
        try:
            request = ranking.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result
        answer = yield Consult(request.items) if isinstance(request, Query) else request


@dataclass(frozen=True, kw_only=True)
class KnownOrder(Greedy):
    """Greedy search that skips the ranking of texts with a known order of words.

    Attributes:
        orders: numbers of words in the order in which they are tried, by the texts of a sample.
        new_orders: these numbers for the other texts; filled by the searches.
    """

    orders: Mapping[tuple[str, ...], Sequence[int]] = field(default_factory=dict)
    new_orders: dict[tuple[str, ...], list[int]] = field(default_factory=dict)

    def _order(self, context: Context) -> Generator[Request, Any, tuple[list[int], bool]]:
        columns = context.original.columns
        if columns in self.orders:
            return list(self.orders[columns]), False
        order, exhausted = yield from super()._order(context)
        if order:
            # An order that the budget cut is empty, and must not be reused.
            self.new_orders[columns] = list(order)
        return order, exhausted


def _most_similar(
    candidates: Sequence[Candidate], judged: Sequence[Verdict], chosen: int, *, reference: bool
) -> int:
    """Return the most similar candidate that reaches the goal; `chosen` without similarities."""
    if reference:
        # The reference reads the sorted list only up to the first that does not reach the goal.
        successes = []
        for i in sorted(range(len(judged)), key=lambda i: (-judged[i].score, _key(candidates[i]))):
            if not judged[i].success:
                break
            successes.append(i)
    else:
        successes = [i for i, verdict in enumerate(judged) if verdict.success]
    rated = [(i, candidates[i].similarity) for i in successes]
    measured = [(similarity, i) for i, similarity in rated if similarity is not None]
    if not measured:
        return chosen
    # Among successes the most similar text is best, as in TextFooler.
    top = max(similarity for similarity, _ in measured)
    # Equal similarities differ in the last digits.
    close = 0.0 if reference else 1e-6
    return min(
        (i for similarity, i in measured if similarity >= top - close),
        key=lambda i: (-judged[i].score if reference else 0.0, _key(candidates[i])),
    )


@dataclass(frozen=True, kw_only=True)
class Beam:
    """Keeps the best few texts, and replaces any word of each.

    Attributes:
        width: texts that are kept; 1 is the greedy search over all words.
        depth: words that are replaced at most; no limit if None.
    """

    width: int = 8
    depth: int | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.width < 1 or (self.depth is not None and self.depth < 1):
            msg = f"got width={self.width}, depth={self.depth}, expected at least 1"
            raise ValueError(msg)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        beam = [(context.original, context.clean)]
        top = SearchEnd(context.original, context.clean)
        words = len(context.original)
        if context.reference:  # has no limit; insertions and merges need three steps a word at most
            words *= 4
        for _ in range(words if self.depth is None else self.depth):
            pool: list[Candidate] = []
            for document, _standing in beam:
                indices = context.allowed(document)
                if not indices:
                    continue
                candidates: list[Candidate] = yield Propose(document, indices)
                pool += candidates
            if not context.attack.compat.repeats_candidates:
                # Backwards and forwards again: of equal texts the first candidate stays, at the
                # place of the last one.
                pool = list(
                    {candidate.columns: candidate for candidate in reversed(pool)}.values()
                )[::-1]
            if not pool:
                break
            answers: Answers = yield Query(pool)
            # The budget may have cut the query.
            pool = pool[: len(answers.judged)]
            if not pool:
                break
            former, top = top, improve(top, pool, answers.judged, context)
            # The clean text itself reaches some goals: only a new text ends the search.
            if (top is not former and top.judged.success) or answers.exhausted:
                break
            values = np.array([verdict.score for verdict in answers.judged], dtype=np.float64)
            # Ties by text: the order of proposals does not matter.
            by_text = sorted(range(len(pool)), key=lambda i: pool[i].columns)
            order = [
                by_text[i]
                for i in descending(values[by_text], None if context.reference else context.tie)
            ]
            beam = [
                (pool[i].base.accept(pool[i], mark_all=context.reference), answers.judged[i])
                for i in order[: self.width]
            ]
        return top


@dataclass(frozen=True, kw_only=True)
class RandomSearch:
    """Replaces words in random order by random candidates: the baseline of all searches.

    Attributes:
        tries: whole texts that are tried.
    """

    tries: int = 10
    needs_scores: ClassVar[bool] = False

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        top = SearchEnd(context.original, context.clean)
        for _ in range(self.tries):
            current = context.original
            order = context.allowed(current)
            context.random.shuffle(order)
            for original_index in order:
                index = current.position(original_index)
                # Words that were accepted before may have merged this one, or used up the allowed
                # changes.
                if index is None or index not in context.allowed(current):
                    continue
                candidates: list[Candidate] = yield Propose(current, [index])
                if not candidates:
                    continue
                # Sorted: the draw must not depend on the order of proposals.
                candidate = context.random.choice(sorted(candidates, key=_key))
                answers: Answers = yield Query([candidate])
                if not answers.judged:
                    return top
                if answers.judged[0].score > top.judged.score + context.tie:
                    top = SearchEnd(candidate, answers.judged[0])
                if answers.judged[0].success or answers.exhausted:
                    return SearchEnd(candidate, answers.judged[0])
                current = current.accept(candidate)
        return top
