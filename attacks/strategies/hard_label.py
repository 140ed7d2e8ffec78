"""Hard-label search: the victim's classes are enough, its scores are not looked at.

Source: Maheshwary, Maheshwary, Pudi, "Generating Natural Language Attacks in a Hard Label Black
Box Setting", 2021 (HLBB): a random text that reaches the goal, words put back, then a population
of texts that all reach it. The paper maximises the similarity that a sentence encoder finds between
the whole texts. Here the number of changed words is made small. Among equal numbers, the similarity
of the replacements is made large, if a constraint has measured it: it is known before the search,
so that a round costs no encoder.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from attacks.composition import Context, Propose, Request, SearchEnd, Steps
from attacks.document import Candidate, Document, words_of
from attacks.strategies.rounds import Rounds
from text import check_range

Words = Mapping[int, str]
"""Replacements by the numbers of the words."""
PARTS = 8
"""Parts in which words are put back, and again each of the parts."""


@dataclass(frozen=True, kw_only=True)
class HardLabel:
    """Finds a text of another class at random, then brings it nearer to the original.

    Attributes:
        tries: random texts at most.
        at_once: of these in one query.
        population: texts of a generation.
        generations: rounds that look for a nearer text.
    """

    tries: int = 500
    at_once: int = 25
    population: int = 30
    generations: int = 20
    needs_scores: ClassVar[bool] = False
    refines: ClassVar[bool] = True
    """It searches on after its first success, see `Search`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range(vars(self), least=1)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        original, rounds = context.original, Rounds(context)
        candidates: list[Candidate] = yield Propose(original, context.allowed(original))
        space = WordSpace.of(context, rounds, candidates)
        if not space.options:
            return rounds.top
        best = yield from self._begin(space)
        if best is None:
            return rounds.top
        best = yield from self._put_back(space, best)
        # All members reach the goal: the search only shortens the way back.
        population = [best]
        for _ in range(self.generations):
            if rounds.exhausted or len(best) <= 1:
                break
            children = []
            for _ in range(self.population):
                parents = [context.random.choice(population) for _ in range(2)]
                children.append(space.mutate(space.mate(*parents)))
            won = yield from space.ask(children)
            # Whatever is nearer, and as far as the farthest member at most.
            pool = {tuple(sorted(words.items())): words for words in (*population, *won)}
            population = sorted(pool.values(), key=space.distance)[: self.population]
            best = population[0]
        document = space.document(best)
        return SearchEnd(document, rounds.of(document))

    def _begin(self, space: "WordSpace") -> Generator[Request, Any, Words | None]:
        """Return the nearest of the random texts of the first round in which one succeeds."""
        # Rounded up.
        for _ in range(-(-self.tries // self.at_once)):
            won = yield from space.ask([space.random() for _ in range(self.at_once)])
            if won:
                return min(won, key=space.distance)
            if space.rounds.exhausted:
                break
        return None

    @staticmethod
    def _put_back(space: "WordSpace", words: Words) -> Generator[Request, Any, Words]:
        """Put back original words, as long as the goal stays reached.

        They are put back in parts, first eighths of all words, in the end single words. One query
        asks which parts can be put back alone, the next one whether these can be together;
        otherwise they are tried one after the other, those that save most first.
        """
        current = dict(words)
        size = len(current)
        while size > 1 and not space.rounds.exhausted:
            # Rounded up, so that it ends at 1: one word at a time.
            size = -(-size // PARTS)
            order = sorted(current, key=lambda i: (-space.options[i][current[i]], i))
            parts = [order[i : i + size] for i in range(0, len(order), size)]
            alone = [_without(current, part) for part in parts]
            won = yield from space.ask([words for words in alone if words])
            free = [part for part, words in zip(parts, alone, strict=True) if words in won]
            # Parts that may each be put back alone need not be so together: then one by one.
            together = _without(current, [i for part in free for i in part])
            if together and (yield from space.ask([together])):
                current = together
                continue
            for part in free:
                less = _without(current, part)
                if less and (yield from space.ask([less])):
                    current = less
        return current


def _without(words: Words, out: Sequence[int]) -> dict[int, str]:
    """Return the replacements without those of some words."""
    gone = set(out)
    return {i: word for i, word in words.items() if i not in gone}


@dataclass(slots=True)
class WordSpace:
    """The texts that can be made of an original by `options`.

    These are the replacements of each word, each with its distance in [0, 2].
    """

    context: Context
    rounds: Rounds
    options: Mapping[int, Mapping[str, float]]

    @classmethod
    def of(cls, context: Context, rounds: Rounds, candidates: Iterable[Candidate]) -> "WordSpace":
        """Make the space of candidates that each replace a word by one other."""
        options: dict[int, dict[str, float]] = {}
        for candidate in candidates:
            if candidate.width != 1 or len(words_of(candidate.word)) != 1:
                continue
            # Measured by a constraint on the way, if the attack has one; else all are equal.
            far = 1.0 if candidate.similarity is None else 1.0 - candidate.similarity
            options.setdefault(candidate.index, {})[candidate.word] = far
        return cls(context, rounds, options)

    def distance(self, words: Words) -> tuple[float, tuple[tuple[int, str], ...]]:
        """Return the distance to the original, and what breaks ties."""
        # A changed word costs more than any differences of similarity.
        far = sum(self.options[i][word] for i, word in words.items())
        return len(words) + far / (4 * len(self.options)), tuple(sorted(words.items()))

    def document(self, words: Words) -> Document:
        """Return the text."""
        return self.context.original.rewrite(words, self.context.original)

    def random(self) -> Words:
        """Replace a random share of the words, at least one, and as many as the text may have."""
        draw = self.context.random
        share = draw.uniform(0.1, 1.0)
        # At least one word, or the text would be the original.
        chosen = [i for i in self.options if draw.random() < share] or [
            draw.choice([*self.options])
        ]
        words = {i: draw.choice([*self.options[i]]) for i in chosen}
        # Where few words may change, nearly all draws would be thrown away.
        while len(words) > 1 and not self.context.admits(self.document(words)):
            del words[draw.choice(sorted(words))]
        return words

    def mate(self, first: Words, second: Words) -> Words:
        """Take each word from either of two texts."""
        draw = self.context.random
        return {
            i: source[i]
            # Sorted: the draws must not depend on the order of a set.
            for i in sorted({*first, *second})
            if i in (source := first if draw.random() < 0.5 else second)
        }

    def mutate(self, words: Words) -> Words:
        """Put a word back, replaces it otherwise, or moves the change to another word."""
        draw, mutant = self.context.random, dict(words)
        if mutant and draw.random() < 0.67:
            # Sorted: equal texts may list their changes in another order.
            out = draw.choice(sorted(mutant))
            del mutant[out]
        if not mutant or draw.random() < 0.67:
            index = draw.choice([*self.options])
            mutant[index] = draw.choice([*self.options[index]])
        return mutant

    def ask(self, texts: Sequence[Words]) -> Generator[Request, Any, list[Words]]:
        """Ask about texts; returns those that reach the goal."""
        pairs = [(words, self.document(words)) for words in texts]
        allowed = [pair for pair in pairs if self.context.admits(pair[1])]
        yield from self.rounds.ask(document for _, document in allowed)
        return [words for words, document in allowed if self.rounds.reached(document)]
