"""Particle swarm search: texts move towards the best ones, and change words of their own.

Source: Zang et al., "Word-level Textual Adversarial Attacking as Combinatorial Optimization",
2020, section 4. The texts of all particles are one query per round. In TextAttack 0.3.11 a particle
that turns begins as the elite, and takes words of the particle with the probability of a turn. In
the paper's code and here it takes words of the elite.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from attacks.composition import Context, Propose, Request, Steps
from attacks.document import Candidate, Document
from attacks.search import best
from attacks.strategies.rounds import Item, Rounds, draw_index
from text import check_range

INERTIA = (0.8, 0.2)
"""Of the velocity at the beginning and at the end; section 5.2."""
TURN = (0.8, 0.2)
"""Probability to turn to a particle's own best text, at the beginning and at the end; to that of
all, the other way round."""
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
        speeds = [
            [random.uniform(-FASTEST, FASTEST)] * len(original) for _ in range(self.population)
        ]
        for generation in range(self.generations):
            if rounds.over() or not len(original):
                break
            texts_so_far = [*own, *texts]
            row = best(texts_so_far, [rounds.of(text) for text in texts_so_far], context)
            # The best text that any particle has visited.
            leader = texts_so_far[row]
            share = generation / self.generations
            # Linear from the first value of each pair to the second.
            inertia = (INERTIA[0] - INERTIA[1]) * (1 - share) + INERTIA[1]
            chances = TURN[0] - share * (TURN[0] - TURN[1]), TURN[1] + share * (TURN[0] - TURN[1])
            for k, speed in enumerate(speeds):
                for d in range(len(original)):
                    # A word that differs from the elite's is pulled towards it.
                    pull = _pull(texts[k], own[k], d) + _pull(texts[k], leader, d)
                    speed[d] = inertia * speed[d] + (1 - inertia) * pull
                for elite, chance in zip((own[k], leader), chances, strict=True):
                    if random.random() < chance:
                        texts[k] = _turn(context, texts[k], elite, speed)
            yield from rounds.ask(texts)
            if rounds.over():
                break
            changed = [
                k
                for k, text in enumerate(texts)
                # The more words are changed, the rarer a mutation.
                if random.random() < 1 - 2 * len(text.modified) / len(original)
            ]
            mutants = yield from self._mutate(context, rounds, [texts[k] for k in changed])
            if rounds.over():
                break
            for k, mutant in zip(changed, mutants, strict=True):
                texts[k] = mutant
            for k, text in enumerate(texts):
                if rounds.of(text).score > rounds.of(own[k]).score + context.tie:
                    own[k] = text
        return rounds.top

    @staticmethod
    def _mutate(
        context: Context, rounds: Rounds, texts: Sequence[Document]
    ) -> Generator[Request, Any, list[Document]]:
        """Replace a word of each text by its best candidate, drawn in proportion to its gain."""
        proposed: dict[tuple[str, ...], dict[int, list[Candidate]]] = {}
        for text in texts:
            if text.columns in proposed:
                continue
            candidates: list[Candidate] = yield Propose(text, context.allowed(text))
            by_word = proposed[text.columns] = dict[int, list[Candidate]]()
            for candidate in candidates:
                by_word.setdefault(candidate.index, []).append(candidate)
        pool: list[Item] = [
            candidate
            for words in proposed.values()
            for changes in words.values()
            for candidate in changes
        ]
        yield from rounds.ask(pool)
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
            # Drawn in proportion to the gain; None where no word gains.
            row_drawn = draw_index(context.random, gains)
            mutants.append(text if row_drawn is None else text.accept(options[row_drawn]))
        return mutants


def _pull(text: Document, elite: Document, index: int) -> float:
    return -FASTEST if text.words[index] == elite.words[index] else FASTEST


def _turn(context: Context, text: Document, elite: Document, speed: Sequence[float]) -> Document:
    """Return the text with words of the elite; the text itself where it may not have them."""
    words = {
        d: elite.words[d]
        for d, velocity in enumerate(speed)
        if context.random.random() < 1 / (1 + math.exp(-velocity))
        and elite.words[d] != text.words[d]
    }
    if not words:
        return text
    moved = text.rewrite(words, context.original)
    return moved if len(moved) == len(text) and context.admits(moved) else text
