"""The worst text within some edits of characters, of a span of text between kept separators.

Words are the runs of letters a to z and digits; all other characters, the separators, are between
them. A word that is not known has score 0. Then the score of a text is found by reading it
character by character: a state is the part of a known word that has been read (a node of the trie
of all known words), or that no known word begins so. An edit reads another character than the one
that is there. The least score over all texts within k edits is a shortest path through positions,
nodes and numbers of edits: exact, whatever is inserted, split or joined.

Here no separator of a span is kept. `certify.words.kept_separators` makes whole texts of spans.
"""

import string
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LETTERS = string.ascii_lowercase + string.digits
BETWEEN = len(LETTERS)
"""Code of a separator."""
SPELT = (*LETTERS, " ")
"""The character of each code."""
START, LOST = 0, 1
"""The nodes of a word that has not begun, and of one that is no part of a known word."""
_KEPT, _INSERTED, _REPLACED, _DELETED = -1, -2, 100, 200
"""The steps of a path: as it was; insertion of a character c, from -2 downwards; another character
instead of one, from 100 upwards; none. Else the character that is there."""
_CODE = {letter: code for code, letter in enumerate(LETTERS)}
_CODE |= {letter.upper(): code for letter, code in _CODE.items()}


class Trie(NamedTuple):
    """All known words, letter by letter.

    `child` `[M, 37]` is the node after each node and character; `word` `[M]` the id of the word
    that ends at a node, or 0.
    """

    child: Tensor
    word: Tensor

    @classmethod
    def of(cls, words: Sequence[tuple[str, int]]) -> "Trie":
        """Make the trie of words with their ids; words of other characters are never met."""
        rows: list[dict[int, int]] = [{}, {}]
        ends = {}
        for spelt, index in words:
            codes = [_CODE.get(letter) if not letter.isupper() else None for letter in spelt]
            if not codes or None in codes:
                continue
            node = START
            for code in codes:
                assert code is not None  # looked at above
                if code not in rows[node]:
                    rows[node][code] = len(rows)
                    rows.append({})
                node = rows[node][code]
            ends[node] = index
        # A letter without a child leads to LOST, a separator to START.
        child = torch.full((len(rows), BETWEEN + 1), LOST)
        child[:, BETWEEN] = START
        where = [(node, code, to) for node, row in enumerate(rows) for code, to in row.items()]
        if where:
            node_of, code_of, to_of = torch.tensor(where).unbind(1)
            child[node_of, code_of] = to_of
        word = torch.zeros(len(rows), dtype=torch.int64)
        word[list(ends)] = torch.tensor(list(ends.values()), dtype=torch.int64)
        return cls(child, word)


def codes_of(text: str) -> list[int]:
    """Return the code of each character."""
    return [_CODE.get(character, BETWEEN) for character in text]


class _Front(NamedTuple):
    """States with their least scores.

    Attributes:
        key: `[M]` int64, row * nodes + node, each once.
        value: `[M, J]`.
        parent: `[M]` place of the state before in its own front; only for one direction.
        code: `[M]` character that was read.
    """

    key: Tensor
    value: Tensor
    parent: Tensor
    code: Tensor


class Edits:
    """Finds the worst texts within some edits of spans, without any of their separators.

    Scores of words are `[V, C]` float64; 0 for word 0.
    """

    def __init__(self, trie: Trie, scores: Tensor) -> None:
        self.trie = trie
        self.scores = scores[trie.word]
        self.nodes = len(trie.word)

    def least(self, spans: Sequence[str], direction: Tensor, k: int) -> Tensor:
        """Return the least scores `[B, J, k + 1]` of all texts within 0, 1, ..., k edits.

        They are inf for fewer edits than a span has separators. The J scores of a text are products
        of direction `[B, J, C]` with that of the classes.
        """
        rows, codes = len(spans), [codes_of(span) for span in spans]
        ends = torch.tensor([len(row) for row in codes])
        length = max(map(len, codes), default=0)
        filled = [row + [0] * (length - len(row)) for row in codes]
        padded = torch.tensor(filled, dtype=torch.int64).view(rows, length)
        # The edits that may be spent before a position: the separators after it take one each.
        later = (padded == BETWEEN).long().flip(1).cumsum(1).flip(1)
        spent = k - torch.nn.functional.pad(later, (0, 1))
        best = torch.full((rows, direction.shape[1], k + 1), torch.inf, dtype=torch.float64)
        fronts = self._begin(rows, direction, k)
        for position in range(length + 1):
            fronts = self._insert(fronts, direction, spent[:, position])
            done = ends == position
            if bool(done.any()):
                for edits, front in enumerate(fronts):
                    last = self._only(front, done)
                    row = (last.key // self.nodes).unsqueeze(1).expand_as(last.value)
                    closed = self._closed(last, direction)
                    # Several nodes of a row may end here: keep the least.
                    best[:, :, edits].scatter_reduce_(0, row, closed, "amin")
                fronts = [self._only(front, ends > position) for front in fronts]
            if position < length:
                fronts = self._consume(
                    fronts, padded[:, position], direction, spent[:, position + 1]
                )
        # Within k edits means at most k.
        return best.cummin(dim=2).values

    def witness(self, span: str, direction: Tensor, k: int) -> str:
        """Return a text within k edits of a span of at most k separators, with the least score."""
        directions, codes = direction.view(1, 1, -1), codes_of(span)
        later = [codes[position:].count(BETWEEN) for position in range(len(codes) + 1)]
        spent = k - torch.tensor(later)
        fronts, history = self._begin(1, directions, k), []
        for position in range(len(codes) + 1):
            before, fronts = (
                fronts,
                self._insert(fronts, directions, spent[position : position + 1]),
            )
            history.append((position, before, fronts))
            if position < len(codes):
                code, rest = torch.tensor([codes[position]]), spent[position + 1 : position + 2]
                fronts = self._consume(fronts, code, directions, rest)
        ends = [
            (float(closed.min()), edits, int(closed.argmin()))
            for edits, front in enumerate(fronts)
            if len(closed := self._closed(front, directions).flatten())
        ]
        _, edits, at = min(ends)
        return _spelt(span, history, edits, at)

    def _begin(self, rows: int, direction: Tensor, k: int) -> list[_Front]:
        key = torch.arange(rows) * self.nodes + START
        value = torch.zeros(rows, direction.shape[1], dtype=torch.float64)
        first = _Front(key, value, torch.full_like(key, -1), torch.full_like(key, -1))
        return [first, *[_Front(*(part[:0] for part in first)) for _ in range(k)]]

    def _only(self, front: _Front, going: Tensor) -> _Front:
        keep = going[front.key // self.nodes]
        return front if bool(keep.all()) else _Front(*(part[keep] for part in front))

    def _closed(self, front: _Front, direction: Tensor) -> Tensor:
        """Return `[M, J]` scores if the word ends here."""
        row, node = front.key // self.nodes, front.key % self.nodes
        word = (direction[row] * self.scores[node].unsqueeze(1)).sum(dim=-1)
        return front.value + word

    def _read(self, front: _Front, codes: Tensor) -> _Front:
        """Read the character of each row, which is kept, unless it is a separator."""
        row, node = front.key // self.nodes, front.key % self.nodes
        code = codes[row]
        stays = code != BETWEEN
        parents = stays.nonzero().flatten()
        if not bool(stays.all()):
            row, node, code = row[stays], node[stays], code[stays]
        key = row * self.nodes + self.trie.child[node, code]
        return _Front(key, front.value[parents], parents, code)

    def _any(self, front: _Front, direction: Tensor, rows: Tensor) -> _Front:
        """Read every character in each state of some rows.

        Of the characters that no known word has there it keeps one.
        """
        parents = torch.arange(len(front.key))
        front = self._only(front._replace(parent=parents), rows)
        row, node = front.key // self.nodes, front.key % self.nodes
        reached = self.trie.child[node]
        keep = reached != LOST
        keep[:, BETWEEN] = True
        # All letters that lead nowhere are alike: one represents them.
        lost = (~keep).long().argmax(dim=1)
        keep[torch.arange(len(keep)), lost] = True
        at, codes = keep.nonzero(as_tuple=True)
        ends = codes == BETWEEN
        value = torch.where(ends.unsqueeze(1), self._closed(front, direction)[at], front.value[at])
        return _Front(row[at] * self.nodes + reached[at, codes], value, front.parent[at], codes)

    def _insert(self, fronts: list[_Front], direction: Tensor, spent: Tensor) -> list[_Front]:
        """Add the states after insertions, in rows `[B]` that have an edit to spend."""
        new_fronts = [fronts[0]]
        for edits, after in enumerate(fronts[1:], start=1):
            inserted = self._any(new_fronts[-1], direction, edits <= spent)
            inserted = inserted._replace(code=_INSERTED - inserted.code)
            parents = torch.arange(len(after.key))
            unchanged = after._replace(parent=parents, code=torch.full_like(parents, _KEPT))
            new_fronts.append(_least([unchanged, inserted]))
        return new_fronts

    def _consume(
        self, fronts: list[_Front], codes: Tensor, direction: Tensor, spent: Tensor
    ) -> list[_Front]:
        """Go to the next position: reads the character there, another one, or none."""
        new_fronts = []
        for edits, front in enumerate(fronts):
            parts = [self._read(front, codes)]
            if edits:
                before = fronts[edits - 1]
                other = self._any(before, direction, edits <= spent)
                parts.append(other._replace(code=_REPLACED + other.code))
                parents = torch.arange(len(before.key))
                dropped = torch.full_like(parents, _DELETED)
                deleted = _Front(before.key, before.value, parents, dropped)
                parts.append(self._only(deleted, edits <= spent))
            new_fronts.append(_least(parts))
        return new_fronts


def _least(parts: Sequence[_Front]) -> _Front:
    """Keep the least score of each state."""
    key, value, parent, code = (torch.cat(columns) for columns in zip(*parts, strict=True))
    if not len(key):
        return _Front(key, value, parent, code)
    states, inverse = torch.unique(key, return_inverse=True)
    best = value.new_full((len(states), value.shape[1]), torch.inf)
    best.scatter_reduce_(0, inverse.unsqueeze(1).expand_as(value), value, "amin")
    if value.shape[1] > 1:
        # A path would belong to one direction only.
        return _Front(states, best, states, states)
    # Any predecessor with the least score gives a witness.
    reached = (value == best[inverse]).flatten().nonzero().flatten()
    where = torch.empty_like(states).scatter_(0, inverse[reached], reached)
    return _Front(states, best, parent[where], code[where])


def _spelt(
    text: str, history: Sequence[tuple[int, list[_Front], list[_Front]]], edits: int, at: int
) -> str:
    """Follow a path back, and write the text that it reads."""
    written: list[str] = []
    for position, before, after in reversed(history):
        # Insertions in front of this position.
        while edits and int(after[edits].code[at]) <= _INSERTED:
            written.append(SPELT[_INSERTED - int(after[edits].code[at])])
            edits, at = edits - 1, int(after[edits].parent[at])
        if edits:
            at = int(after[edits].parent[at])
        if position == 0:
            break
        code, at_before = int(before[edits].code[at]), int(before[edits].parent[at])
        if code >= _DELETED:
            edits -= 1
        elif code >= _REPLACED:
            written.append(SPELT[code - _REPLACED])
            edits -= 1
        else:
            written.append(text[position - 1])
        at = at_before
    return "".join(reversed(written))
