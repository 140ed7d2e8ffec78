"""Particle swarm search: texts move towards the best ones, and change words of their own.

Source: Zang et al., "Word-level Textual Adversarial Attacking as Combinatorial Optimization",
2020, section 4. The texts of all particles are one query per round. In TextAttack 0.3.11 a particle
that turns begins as the elite, and takes words of the particle with the probability of a turn. In
the paper's code and here it takes words of the elite.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from attacks.composition import Context, Propose, Request, Steps
from attacks.document import Candidate, Document
from attacks.goals import NEAR
from attacks.search import best
from attacks.strategies.rounds import Rounds, draw_index
from text import check_range

INERTIA = (0.8, 0.2)
"""Of the velocity at the beginning and at the end; section 5.2."""
TURN = (0.8, 0.2)
"""Probability to turn to a particle's own best text, at the beginning and at the end; to that of
all, the other way round."""
FLIGHT = (0.5, 0.8)
"""Range of the inertia of LEAP's better particles."""
ALPHA = 1.5
"""Index of the Levy flights; the next three numbers are Mantegna's for it."""
_SIGMA = (
    math.gamma(1 + ALPHA)
    * math.sin(math.pi * ALPHA / 2)
    / (math.gamma((1 + ALPHA) / 2) * ALPHA * 2 ** ((ALPHA - 1) / 2))
) ** (1 / ALPHA)
_K = (
    ALPHA
    * math.gamma((ALPHA + 1) / (2 * ALPHA))
    / math.gamma(1 / ALPHA)
    * (
        ALPHA
        * math.gamma((ALPHA + 1) / 2)
        / (math.gamma(ALPHA + 1) * math.sin(math.pi * ALPHA / 2))
    )
    ** (1 / ALPHA)
)
_C = 2.737
FASTEST = 3.0
"""Velocity, of which the sigmoid is the probability that a word turns: 0.047 to 0.953."""


@dataclass(frozen=True, kw_only=True)
class Swarm:
    """Moves texts towards their own best and the best of all, word by word, and mutates them.

    Words keep their number: transformations that insert or delete words do not fit.

    Attributes:
        population: number of texts.
        generations: moves of each at most.
    """

    population: int = 60
    generations: int = 20

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range({"population": self.population, "generations": self.generations}, least=1)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds, original, random = Rounds(context), context.original, context.random
        texts = [original] * self.population
        texts = yield from self._mutate(context, rounds, texts)
        # A copy: the best text of each particle stays when the particle moves.
        own = list(texts)
        # One velocity per word; all words of a particle begin with the same.
        speeds = [[speed] * len(original) for speed in self._speeds(random)]
        first = [rounds.of(text).score for text in texts if text.columns in rounds.verdicts]
        for generation in range(self.generations):
            if rounds.over() or not len(original):
                break
            texts_so_far = [*own, *texts]
            row = best(texts_so_far, [rounds.of(text) for text in texts_so_far], context)
            # The best text that any particle has visited.
            leader = texts_so_far[row]
            share = generation / self.generations
            inertias = [
                self._inertia(context, share, rounds.of(text).score, first) for text in texts
            ]
            # Linear from the first value of the pair to the second.
            chances = TURN[0] - share * (TURN[0] - TURN[1]), TURN[1] + share * (TURN[0] - TURN[1])
            for k, speed in enumerate(speeds):
                for d in range(len(original)):
                    # A word that differs from the elite's is pulled towards it.
                    pull = _pull(texts[k], own[k], d) + _pull(texts[k], leader, d)
                    speed[d] = inertias[k] * speed[d] + (1 - inertias[k]) * pull
                turns = self._turns(speed)
                for elite, chance in zip((own[k], leader), chances, strict=True):
                    if random.random() < chance:
                        texts[k] = self._move(context, texts[k], elite, turns)
            yield from rounds.ask(texts)
            if rounds.over():
                break
            changed = [
                k
                for k, text in enumerate(texts)
                # The more words are changed, the rarer a mutation.
                if random.random() < 1 - 2 * self._changes(text, own[k]) / len(original)
            ]
            mutants = yield from self._mutate(
                context, rounds, [texts[k] for k in changed], self._draw
            )
            if rounds.over():
                break
            for k, mutant in zip(changed, mutants, strict=True):
                texts[k] = mutant
            for k, text in enumerate(texts):
                if rounds.of(text).score > rounds.of(own[k]).score + context.tie:
                    own[k] = text
        return rounds.top

    # What variants of the search do otherwise

    def _speeds(self, random: Random) -> list[float]:
        """Return the velocity of each new particle."""
        return [random.uniform(-FASTEST, FASTEST) for _ in range(self.population)]

    def _inertia(
        self, context: Context, share: float, score: float, first: Sequence[float]
    ) -> float:
        """Return the inertia of a particle of this score.

        A share of the generations is over; `first` are the scores of the first texts.
        """
        # Linear from the first value to the second.
        return (INERTIA[0] - INERTIA[1]) * (1 - share) + INERTIA[1]

    def _turns(self, speed: Sequence[float]) -> list[float]:
        """Return the probability that each word turns."""
        return [1 / (1 + math.exp(-velocity)) for velocity in speed]

    def _move(
        self, context: Context, text: Document, elite: Document, turns: Sequence[float]
    ) -> Document:
        """Return a particle that has turned to an elite."""
        return _turn(context, text, elite, turns)

    def _changes(self, text: Document, own: Document) -> int:
        """Return the number of changed words of a particle, for the chance of a mutation."""
        return len(text.modified)

    def _draw(self, random: Random, gains: Sequence[float]) -> int | None:
        """Return the mutation of a particle; None where none gains."""
        # Drawn in proportion to the gain.
        return draw_index(random, gains)

    @staticmethod
    def _mutate(
        context: Context,
        rounds: Rounds,
        texts: Sequence[Document],
        draw: Callable[[Random, Sequence[float]], int | None] = draw_index,
    ) -> Generator[Request, Any, list[Document]]:
        """Replace a word of each text by its best candidate; `draw` draws the word by the gains."""
        proposed: dict[tuple[str, ...], dict[int, list[Candidate]]] = {}
        for text in texts:
            if text.columns in proposed:
                continue
            candidates: list[Candidate] = yield Propose(text, context.allowed(text))
            by_word = proposed[text.columns] = dict[int, list[Candidate]]()
            for candidate in candidates:
                by_word.setdefault(candidate.index, []).append(candidate)
        yield from rounds.ask(
            candidate
            for words in proposed.values()
            for changes in words.values()
            for candidate in changes
        )
        mutants = []
        for text in texts:
            options, gains = list[Candidate](), list[float]()
            for changes in proposed[text.columns].values():
                answered = [change for change in changes if change.columns in rounds.verdicts]
                if not answered:
                    continue
                answers = [rounds.of(candidate) for candidate in answered]
                row = best(answered, answers, context)
                options.append(answered[row])
                gain = answers[row].score - rounds.of(text).score
                gains.append(context.relative(gain) if gain > context.tie else 0.0)
            row_drawn = draw(context.random, gains)
            mutants.append(text if row_drawn is None else text.accept(options[row_drawn]))
        return mutants


@dataclass(frozen=True, kw_only=True)
class Leap(Swarm):
    """The swarm of LEAP: Levy flights, an inertia for each particle, greedy mutations.

    Source: Xiao, Li, Chen, Li, Chen, Zhang, "LEAP: Efficient and Automated Test Method for NLP
    Software", 2023, and its released code. As there, a particle that turns begins as the elite and
    takes words of its own, about one by the softmax of the velocities.

    Differences: the inertia follows the score of each generation, as in TextAttack 0.3.11; an index
    in the released code keeps that of the first generation. A particle that no word helps stays as
    it is; there, its last word changes for the worse.
    """

    def _speeds(self, random: Random) -> list[float]:
        # Uniform or a flight, by the throw of another flight.
        uniform = super()._speeds(random)
        return [
            speed
            if random.uniform(-FASTEST, FASTEST) < levy(random)
            else levy_within(random, -FASTEST, FASTEST)
            for speed in uniform
        ]

    def _inertia(
        self, context: Context, share: float, score: float, first: Sequence[float]
    ) -> float:
        mean, least = sum(first) / len(first), min(first)
        if mean - least > context.tie and score < mean - context.tie:
            # Linear from the worst of the first texts to their mean.
            place = max(0.0, (score - least) / (mean - least))
            return INERTIA[1] + place * (INERTIA[0] - INERTIA[1])
        return levy_within(context.random, *FLIGHT)

    def _turns(self, speed: Sequence[float]) -> list[float]:
        top = max(speed)
        weights = [math.exp(velocity - top) for velocity in speed]
        return [weight / sum(weights) for weight in weights]

    def _move(
        self, context: Context, text: Document, elite: Document, turns: Sequence[float]
    ) -> Document:
        return _turn(context, elite, text, turns)

    def _changes(self, text: Document, own: Document) -> int:
        return sum(a != b for a, b in zip(text.words, own.words, strict=True))

    def _draw(self, random: Random, gains: Sequence[float]) -> int | None:
        top = max(gains, default=0.0)
        if top <= 0:
            return None
        # Of nearly equal gains that of the first word.
        return next(i for i, gain in enumerate(gains) if gain >= top - NEAR["margin"])


def levy(random: Random) -> float:
    """Draw a Levy flight of index `ALPHA`, by Mantegna's method of 1994.

    As in the released code of LEAP, the exponent has no absolute value: downward flights are longer
    than those of a symmetric stable distribution.
    """
    while True:
        ratio: float = _SIGMA * random.gauss(0, 1) / abs(random.gauss(0, 1)) ** (1 / ALPHA)
        # The exponential below would be huge: the released code draws again.
        if ratio >= -10:
            flight: float = ratio * ((_K - 1) * math.exp(-ratio / _C) + 1)
            return flight


def levy_within(random: Random, least: float, most: float) -> float:
    """Draw from `levy` until a number is in a range."""
    while not least <= (flight := levy(random)) <= most:
        pass
    return flight


def _pull(text: Document, elite: Document, index: int) -> float:
    return -FASTEST if text.words[index] == elite.words[index] else FASTEST


def _turn(context: Context, text: Document, elite: Document, turns: Sequence[float]) -> Document:
    """Return the text with words of the elite; the text itself where it may not have them."""
    words = {
        d: elite.words[d]
        for d, chance in enumerate(turns)
        if context.random.random() < chance and elite.words[d] != text.words[d]
    }
    if not words:
        return text
    moved = text.rewrite(words, context.original)
    return moved if len(moved) == len(text) and context.admits(moved) else text
