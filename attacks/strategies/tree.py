"""Monte-Carlo tree search over replaced words.

Source: Kocsis and Szepesvari, "Bandit based Monte-Carlo Planning", 2006 (UCT), as it is used for
games: selection, expansion, play-out, back-propagation. No peer has it for texts.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from attacks.composition import Context, Propose, Request, Steps
from attacks.document import Candidate, Document
from attacks.search import best
from attacks.strategies.rounds import Item, Rounds
from text import check_range


@dataclass(slots=True, eq=False)
class _Node:
    """A text of the tree.

    Attributes:
        document: the text.
        untried: words of it that have not been replaced yet, in random order.
        children: texts with one more word replaced by its best candidate.
        visits: play-outs through it.
        total: their values.
    """

    document: Document
    untried: list[int]
    children: list["_Node"] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TreeSearch:
    """Grows a tree of texts where play-outs have come nearest to the goal.

    A node gets several children at once, one for each of some random words, so that a round is one
    query. The play-out goes on from the best of them with random replacements, and its texts are
    the next query. A value is the largest relative score on the way.

    Attributes:
        simulations: play-outs.
        exploration: weight of what was visited seldom, in shares of the scale of the logits.
        width: words that a node is grown by at a time.
        depth: words that a play-out replaces.
    """

    simulations: int = 50
    exploration: float = 0.5
    width: int = 4
    depth: int = 3

    def __post_init__(self) -> None:
        """Raises ValueError for a number out of its range."""
        check_range(
            {"simulations": self.simulations, "width": self.width, "depth": self.depth}, least=1
        )
        check_range({"exploration": self.exploration}, least=0)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds = Rounds(context)
        root = _made(context, context.original)
        for _ in range(self.simulations):
            path = [root]
            while not path[-1].untried and path[-1].children:
                path.append(self._chosen(path[-1]))
            leaf = path[-1]
            if not leaf.untried and leaf is root:
                break  # nothing can be replaced
            yield from self._grow(context, rounds, leaf)
            if rounds.over():
                break
            value = context.relative(rounds.of(leaf.document).score)
            if leaf.children:
                fresh = leaf.children[-1]
                value = yield from self._played(context, rounds, fresh.document)
                path.append(fresh)
                if rounds.over():
                    break
            for node in path:
                node.visits += 1
                node.total += value
        return rounds.top

    def _chosen(self, node: _Node) -> _Node:
        """Returns the child with the largest upper bound; the first of equal ones."""

        def bound(child: _Node) -> float:
            if not child.visits:
                return math.inf
            seldom = math.sqrt(2 * math.log(max(node.visits, 1)) / child.visits)
            return child.total / child.visits + self.exploration * seldom

        return max(node.children, key=bound)

    def _grow(self, context: Context, rounds: Rounds, node: _Node) -> Generator[Request, Any, None]:
        """Adds children for some of the words; the best one last."""
        words, node.untried = node.untried[: self.width], node.untried[self.width :]
        if not words:
            return
        found: list[Candidate] = yield Propose(node.document, sorted(words))
        yield from rounds.ask(found)
        made: list[tuple[float, _Node]] = []
        for index in words:
            asked = [one for one in found if one.index == index and one.columns in rounds.known]
            if not asked:
                continue
            answers = [rounds.of(one) for one in asked]
            row = best(asked, answers, context)
            child = _made(context, node.document.accept(asked[row]))
            made.append((answers[row].score, child))
        made.sort(key=lambda one: one[1].document.columns)
        made.sort(key=lambda one: one[0])
        node.children += [child for _, child in made]

    def _played(
        self, context: Context, rounds: Rounds, document: Document
    ) -> Generator[Request, Any, float]:
        """Replaces random words by random candidates; returns the value of what was found."""
        texts: list[Item] = [document]
        current = document
        for _ in range(self.depth):
            indices = context.allowed(current)
            if not indices:
                break
            index = context.random.choice(indices)
            found: list[Candidate] = yield Propose(current, [index])
            if found:
                chosen = context.random.choice(found)
                texts.append(chosen)
                current = current.accept(chosen)
        yield from rounds.ask(texts)
        return max(context.relative(rounds.of(one).score) for one in rounds.answered(texts))


def _made(context: Context, document: Document) -> _Node:
    untried = context.allowed(document)
    context.random.shuffle(untried)
    return _Node(document, untried)
