"""Genetic search: a population of texts that are mated and changed.

Sources: Alzantot et al., "Generating Natural Language Adversarial Examples", 2018, algorithm 1;
Wang, Jin, He, "Natural Language Adversarial Attack and Defense in Word Level", 2019 (IGA).

All members of a generation are changed in lock step, and their texts are one query. TextAttack
0.3.11 asks about the candidates of one member after the other, repeated ones included, and has a
first member for each word, those without candidates included. It also draws parents by
`exp(-score / temperature)`, which prefers the worse ones; papers and released code, and this,
prefer the better ones.
"""

import math
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attacks.composition import Context, Propose, Request, Steps, Verdict
from attacks.document import Candidate, Document
from attacks.search import best, descending
from attacks.strategies.rounds import Rounds, draw_index
from text import check_choice, check_range

Crossover = Literal["words", "point"]


@dataclass(slots=True)
class _Member:
    """A text of the population, with the weight of each word in the next draw."""

    document: Document
    judged: Verdict
    weights: list[float]


@dataclass(frozen=True, kw_only=True)
class Genetic:
    """Mates texts of a population, and replaces a word of each child by its best candidate.

    Words keep their number: transformations that insert or delete words do not fit.

    Attributes:
        population: number of texts.
        generations: times that the population is replaced, at most.
        temperature: of the softmax by which parents are drawn; scores are shares of the scale of
            the victim's logits.
        crossover: `words`: each word from either parent (Alzantot); `point`: the words before a
            random position from one, the others from the other (IGA).
        changes: times that a word may be changed (IGA); if None once, and words with more
            candidates are drawn more often (Alzantot).
    """

    population: int = 60
    generations: int = 20
    temperature: float = 0.3
    crossover: Crossover = "words"
    changes: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range({"population": self.population}, least=2)
        check_range({"generations": self.generations, "changes": self.changes}, least=1)
        check_range({"temperature": self.temperature}, above=0)
        check_choice("crossover", self.crossover, get_args(Crossover))

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds = Rounds(context)
        members = yield from self._first(context, rounds)
        for _ in range(self.generations):
            if rounds.over() or not members:
                break
            # Sorted by text where scores are nearly equal: noise must not choose the parents.
            members.sort(key=lambda member: member.document.columns)
            values = [member.judged.score for member in members]
            members = [members[i] for i in descending(values, context.tie)]
            scores = [context.relative(m.judged.score) / self.temperature for m in members]
            # A softmax without its sum, which the draw does not need.
            shares = [math.exp(score - max(scores)) for score in scores]
            children = []
            for _ in range(self.population - 1):
                # Fitter members are parents more often; one may be both parents.
                pair = [members[draw_index(context.random, shares) or 0] for _ in range(2)]
                children.append(self._child(context, *pair))
            yield from rounds.ask(document for document, _ in children)
            if rounds.over():
                break
            new_members = [_Member(doc, rounds.of(doc), weights) for doc, weights in children]
            yield from self._change(context, rounds, new_members)
            # The best member survives (elitism).
            members = [members[0], *new_members]
        return rounds.top

    def _first(self, context: Context, rounds: Rounds) -> Generator[Request, Any, list[_Member]]:
        """Make the first population."""
        original = context.original
        indices = context.allowed(original)
        if not indices:
            return []
        if self.changes is not None:
            # A member for each word, with its best candidate.
            weights = [float(self.changes)] * len(original)
            members = [_Member(original, context.clean, weights.copy()) for _ in indices]
            yield from self._change(context, rounds, members, at=indices)
            return members[: self.population]
        candidates: list[Candidate] = yield Propose(original, indices)
        weights = [0.0] * len(original)
        for index in indices:
            weights[index] = 1.0  # it may have candidates later
        for index, count in Counter(candidate.index for candidate in candidates).items():
            weights[index] = float(count)
        members = [_Member(original, context.clean, weights.copy()) for _ in range(self.population)]
        yield from self._change(context, rounds, members)
        return members

    def _change(
        self,
        context: Context,
        rounds: Rounds,
        members: Sequence[_Member],
        *,
        at: Sequence[int] | None = None,
    ) -> Generator[Request, Any, None]:
        """Replace a word of each member by its best candidate, if that improves its score.

        `at` has the word of each; without it words are drawn, again where nothing improves.
        """
        # Copies: a word that did not help is left out of this generation only.
        pending = [(member, member.weights.copy()) for member in members]
        proposed: dict[tuple[tuple[str, ...], int], list[Candidate]] = {}
        while pending and not rounds.over():
            drawn_words: list[tuple[_Member, list[float], int, list[Candidate]]] = []
            for row, (member, weights) in enumerate(pending):
                index = at[row] if at is not None else draw_index(context.random, weights)
                if index is None:
                    continue
                # Members are often equal: their candidates are proposed once.
                key = (member.document.columns, index)
                if key not in proposed:
                    proposed[key] = yield Propose(member.document, [index])
                drawn_words.append((member, weights, index, proposed[key]))
            yield from rounds.ask(candidate for *_, options in drawn_words for candidate in options)
            pending = []
            for member, weights, index, options in drawn_words:
                answered = [
                    candidate for candidate in options if candidate.columns in rounds.verdicts
                ]
                answers = [rounds.of(candidate) for candidate in answered]
                row = best(answered, answers, context) if answered else -1
                if row >= 0 and answers[row].score > member.judged.score + context.tie:
                    member.document = member.document.accept(answered[row])
                    member.judged = answers[row]
                    remaining = member.weights[index] - 1 if self.changes is not None else 0.0
                    # A changed word is drawn again only as often as `changes` allows.
                    member.weights[index] = max(remaining, 0.0)
                elif at is None:
                    weights[index] = 0.0
                    pending.append((member, weights))

    def _child(
        self, context: Context, first: _Member, second: _Member
    ) -> tuple[Document, list[float]]:
        """Mate two texts; the first one where their words do not fit, or too many are changed."""
        count = len(first.document)
        if len(second.document) != count:
            return first.document, first.weights.copy()
        if self.crossover == "words":
            swapped = [i for i in range(count) if context.random.random() < 0.5]
        else:
            swapped = list(range(context.random.randrange(count), count))
        # Words keep their number, so that parents can be mated position by position.
        theirs = second.document.words
        words = {i: theirs[i] for i in swapped if theirs[i] != first.document.words[i]}
        if not words:
            return first.document, first.weights.copy()
        child = first.document.rewrite(words, context.original)
        # Words of two parents may join: the weights would belong to other words.
        if len(child) != count or not context.admits(child):
            return first.document, first.weights.copy()
        weights = first.weights.copy()
        for i in swapped:
            weights[i] = second.weights[i]
        return child, weights
