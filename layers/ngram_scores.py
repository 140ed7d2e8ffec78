"""Scores of words and of frequent n-grams, for classifiers that add them up."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from layers.hashed_spelling import hashed_ngrams
from layers.window_net import WindowNet, WindowNetSettings

GRID = 2.0**-20
"""Scores in evaluation mode are multiples of it, so that float64 adds them without rounding."""
LARGEST = 2.0**9
"""Largest score of a certified model: sums over 2^20 words of n-grams of up to 4 are exact."""


def _check_sizes(size: int, tables: int, window: int | None) -> None:
    if window is not None and (tables or window < 2):
        msg = f"got a net over windows of {window} and {tables} tables, expected >= 2 and 0"
        raise ValueError(msg)
    longest = window or tables + 1
    # An n-gram is one int64, with the ids as its digits.
    if size**longest >= 2**63:
        msg = f"got {size} words for n-grams of {longest}, expected fewer words"
        raise ValueError(msg)


class FoundNgrams(NamedTuple):
    """The n-grams of a table among the candidates of texts.

    Attributes:
        places: `[order, M]`, the positions of their words in the flattened `[R, N]` texts.
        choices: `[order, M]`, the candidate of each word.
        rows: `[M]`, rows of the table.
    """

    places: Tensor
    choices: Tensor
    rows: Tensor


class NgramFinder(NamedTuple):
    """Finds the few n-grams of a table among many.

    Attributes:
        keys: `[M]` int64, sorted: the n-grams of the table, each as one number.
        rows: `[M]`, their rows of the table.
        occurs: `[order, V]` bool: the words that some n-gram has at a position.
        marks: for 2 to `order` words `[2^b]` bool: False where no n-gram begins with so many words
            whose number has these last b bits; excludes most others without a search.
    """

    keys: Tensor
    rows: Tensor
    occurs: Tensor
    marks: tuple[Tensor, ...]

    def among(self, candidates: Tensor, real: Tensor) -> FoundNgrams:
        """Find the n-grams that candidates `[R, N, S]` of neighbouring words form.

        `real` `[R, N, S]` is False for entries that only fill up.
        """
        length, size = candidates.shape[1:]
        order = len(self.occurs)
        starts = torch.arange(max(length - order + 1, 0), device=candidates.device)
        place = choices = number = starts  # replaced by the first word
        for i, occurs in enumerate(self.occurs):
            words = candidates[:, i : len(starts) + i]
            fits = occurs[words] & real[:, i : len(starts) + i]
            at = fits.flatten().nonzero().flatten()
            word = words.flatten(0, 2)[at]
            if i == 0:
                place = torch.div(at, size, rounding_mode="floor")
                choices, number = (at - place * size).unsqueeze(0), word
                continue
            # Each beginning of an n-gram is continued by each candidate of the next word.
            counts = fits.sum(dim=2).flatten()
            first = counts.cumsum(0) - counts
            more = counts[place]
            ends = more.cumsum(0)
            index = torch.arange(len(place), device=at.device).repeat_interleave(more)
            new = torch.arange(len(index), device=at.device)
            new += (first[place] - ends + more)[index]
            number = number[index] * self.occurs.shape[1] + word[new]
            marks = self.marks[i - 1]
            possible = marks[number & (len(marks) - 1)].nonzero().flatten()
            index, new, number = index[possible], new[possible], number[possible]
            place = place[index]
            choices = torch.cat([choices[:, index], (at[new] % size).unsqueeze(0)])
        found = torch.searchsorted(self.keys, number).clamp_max(len(self.keys) - 1)
        match = (self.keys[found] == number).nonzero().flatten()
        place = place[match]
        row = torch.div(place, max(len(starts), 1), rounding_mode="floor")
        # From numbers among the starts of texts to positions.
        places = place + row * (order - 1) + torch.arange(order, device=row.device).unsqueeze(1)
        return FoundNgrams(places, choices[:, match], self.rows[found[match]])


class NgramScores(nn.Module):
    """Finds the scores `[C]` of each word, and of each n-gram of 2 to `width` words.

    An n-gram that is not in the tables has score 0, and so have the first `specials` words (padding
    and unknown words), alone and in an n-gram.

    In evaluation mode scores are rounded to multiples of `GRID` and given in float64: sums of them
    do not depend on their order, and a difference of two is exact.

    Args:
        size: number of words.
        classes: number of classes C.
        counts: number of n-grams in the table of each order, from 2 on; empty for words alone.
        bounded: bound each score of a word to [-1, 1] by tanh.
        vectors: width d of fixed word vectors, whose linear function is added; 0 for none.
        specials: number of words without score.
        window: words of a window of the net.
        net: the net over windows that is added instead of n-grams; None for none.
        spelling: hashed n-grams of characters, whose scores are added to those of their words; 0
            for none.

    Raises:
        ValueError: too many words for n-grams of this order.
    """

    def __init__(
        self,
        size: int,
        classes: int,
        *,
        counts: Sequence[int] = (),
        bounded: bool = False,
        vectors: int = 0,
        specials: int = 3,
        window: int = 1,
        net: WindowNetSettings | None = None,
        spelling: int = 0,
    ) -> None:
        super().__init__()
        _check_sizes(size, len(counts), window if net else None)
        self.size, self.classes, self.bounded, self.specials = size, classes, bounded, specials
        self.words = nn.Parameter(torch.zeros(size, classes))
        self.tables = nn.ParameterList(torch.zeros(n, classes) for n in counts)
        for order, n in enumerate(counts, start=2):
            # Sorted negative numbers, which match no n-gram before `set_ngrams`.
            self.register_buffer(f"keys_{order}", torch.arange(n) - n)
        self.vectors: Tensor | None
        self.register_buffer("vectors", torch.zeros(size, vectors) if vectors else None)
        self.of_vectors = nn.Parameter(torch.zeros(vectors, classes)) if vectors else None
        self.spelling: Tensor | None
        self.register_buffer("spelling", None, persistent=False)
        self.of_spelling = nn.Parameter(torch.zeros(spelling, classes)) if spelling else None
        self.net: WindowNet | None = None
        if net is not None:
            self.net = WindowNet(
                size, classes, window=window, settings=net, vectors=vectors, specials=specials
            )
        self._net_tables: Tensor | None = None
        self._kept: dict[int, Tensor] = {}
        self._finders: dict[int, tuple[Tensor, int, NgramFinder]] = {}

    @torch.no_grad()
    def keep(self) -> Self:
        """Compute all tables once, for scores that no longer change, and return itself."""
        self.eval()
        tables = {order: self.ngram_table(order) for order in self.orders}
        self._kept = {1: self.word_table(), **tables}
        self._net_tables = None if self.net is None else self.net.tables(self.vectors)
        return self

    @property
    def width(self) -> int:
        """Words of the longest n-gram or of a window; 1 for words alone."""
        return len(self.tables) + 1 if self.net is None else self.net.window

    @property
    def orders(self) -> range:
        """The orders of the tables of n-grams, from 2 on."""
        return range(2, len(self.tables) + 2)

    def net_tables(self) -> Tensor:
        """`[w, V, H]`: see `WindowNet.tables`, of a model with a net."""
        assert self.net is not None  # see the docstring
        return self.net.tables(self.vectors) if self._net_tables is None else self._net_tables

    def set_spelling(self, words: Sequence[str]) -> None:
        """Look up the n-grams of characters of all words, in the order of their ids."""
        assert self.of_spelling is not None  # of a model that has some
        self.spelling = hashed_ngrams(words, len(self.of_spelling)).to(self.words.device)

    def keys(self, order: int) -> Tensor:
        """`[M]` int64, sorted: the n-grams of an order, each as one number."""
        keys: Tensor = getattr(self, f"keys_{order}")
        return keys

    @torch.no_grad()
    def set_ngrams(self, ngrams: Sequence[Tensor]) -> None:
        """Set the tables: for each order from 2 on `[M, order]` ids of words, each n-gram once."""
        for order, rows in enumerate(ngrams, start=2):
            self.keys(order).copy_(self._numbers(rows).sort().values)

    def _numbers(self, ngrams: Tensor) -> Tensor:
        """`[..., order]` ids to `[...]`, one number for each n-gram."""
        number = ngrams[..., 0]
        for i in range(1, ngrams.shape[-1]):
            number = number * self.size + ngrams[..., i]
        return number

    def word_table(self) -> Tensor:
        """`[V, C]` scores of the words; float64 and on the grid in evaluation mode."""
        # Tables of `keep`, if the scores no longer change.
        if 1 in self._kept:
            return self._kept[1]
        table: Tensor = self.words
        if self.vectors is not None and self.of_vectors is not None:
            table = table + self.vectors @ self.of_vectors
        if self.spelling is not None and self.of_spelling is not None:
            # Row 0 is padding.
            shared = nn.functional.pad(self.of_spelling, (0, 0, 1, 0))
            count = (self.spelling > 0).sum(dim=1, keepdim=True).clamp_min(1)
            bags = nn.functional.embedding_bag(self.spelling, shared, mode="sum", padding_idx=0)
            table = table + bags / count.sqrt()
        if self.bounded:
            table = table.tanh()
        ordinary = torch.arange(self.size, device=table.device) >= self.specials
        return self._final(table * ordinary.unsqueeze(1))

    def ngram_table(self, order: int) -> Tensor:
        """`[M + 1, C]` scores of the n-grams of an order; the last row is that of all others."""
        if order in self._kept:
            return self._kept[order]
        table = self.tables[order - 2]
        # One more row, of zeros, for n-grams without a score.
        return self._final(torch.cat([table, table.new_zeros(1, self.classes)]))

    def _final(self, table: Tensor) -> Tensor:
        # Rounding has no gradient.
        if self.training:
            return table
        return (table.to(torch.float64) / GRID).round() * GRID

    def rows(self, ngrams: Tensor) -> Tensor:
        """`[..., order]` ids of words to `[...]` rows of `ngram_table(order)`."""
        order = ngrams.shape[-1]
        keys = self.keys(order)
        if not len(keys):
            return torch.zeros_like(ngrams[..., 0])
        number = self._numbers(ngrams)
        # `searchsorted` returns the length for a number above all keys.
        index = torch.searchsorted(keys, number).clamp_max(len(keys) - 1)
        match = (keys[index] == number) & (ngrams >= self.specials).all(dim=-1)
        return torch.where(match, index, len(keys))

    def finder(self, order: int) -> NgramFinder:
        """Return the finder of the n-grams of an order, cached until its keys change."""
        keys = self.keys(order)
        owner, version, finder = self._finders.get(order, (None, 0, None))
        # `_version` counts changes of a tensor in place.
        if finder is None or owner is not keys or version != keys._version:
            finder = self._build_finder(order)
            self._finders[order] = (keys, keys._version, finder)
        return finder

    def _build_finder(self, order: int) -> NgramFinder:
        keys = rest = self.keys(order)
        fits, words = keys >= 0, []
        for _ in range(order):
            words.append(rest % self.size)
            fits, rest = fits & (words[-1] >= self.specials), rest // self.size
        keys, rows = keys[fits], fits.nonzero().flatten()
        occurs = torch.zeros(order, self.size, dtype=torch.bool, device=keys.device)
        for i, ids in enumerate(reversed(words)):
            occurs[i, ids[fits]] = True
        # More than 32 marks for each key, so that few beginnings pass by the mark of another. The
        # search in `among` drops these.
        bits = max(10, (32 * len(keys)).bit_length())
        marks, beginning = [], keys
        for _ in range(order - 1):
            mark = torch.zeros(1 << bits, dtype=torch.bool, device=keys.device)
            mark[beginning & (len(mark) - 1)] = True
            marks.append(mark)
            beginning = beginning // self.size
        return NgramFinder(keys, rows, occurs, tuple(marks[::-1]))

    def of_windows(self, windows: Tensor) -> Tensor:
        """`[..., w]` ids of windows to `[..., C]` scores of the net, each window computed once."""
        assert self.net is not None  # callers have checked
        numbers, inverse = torch.unique(self._numbers(windows), return_inverse=True)
        words = []
        for _ in range(windows.shape[-1]):
            words.append(numbers % self.size)
            numbers = numbers // self.size
        scores = self.net.of_windows(self.net_tables(), torch.stack(words[::-1], dim=1))
        return scores[inverse]

    def forward(self, ids: Tensor) -> Tensor:
        """`[B, N]` ids to `[B, N, C]`: scores of each word and of the n-grams that end there."""
        scores = nn.functional.embedding(ids, self.word_table())
        if self.net is not None:
            total: Tensor = scores + self.net(self.net_tables(), ids)
            return total
        for order in self.orders:
            if ids.shape[1] >= order:
                rows = self.rows(ids.unfold(1, order, 1))
                added = nn.functional.embedding(rows, self.ngram_table(order))
                scores = scores + nn.functional.pad(added, (0, 0, order - 1, 0))
        return scores


class ScoreSum(nn.Module):
    """Adds up the scores of a text, over the root of its words if `normalised`.

    Args:
        normalised: divide by the root of the number of words.
        bias: numbers of the `bias` `[C]` of the logits; 0 for none. A detector may get one later.
    """

    bias: nn.Parameter | None

    def __init__(self, *, normalised: bool = True, bias: int = 0) -> None:
        super().__init__()
        self.normalised = normalised
        self.register_parameter("bias", nn.Parameter(torch.zeros(bias)) if bias else None)

    def offset(self, counts: Tensor) -> Tensor | None:
        """`[..., C]` float64: the bias in units of sums over `[...]` words; None without one.

        It is on `GRID`, as the scores are, so that a sum with it is exact as well; but not in
        training, as rounding has no gradient.
        """
        if self.bias is None:
            return None
        # The total is divided by this root in `forward`: the bias adds the same to the logits of
        # texts of every length.
        roots = (
            counts.clamp_min(1).to(torch.float64).sqrt()
            if self.normalised
            else torch.ones_like(counts)
        )
        offset = self.bias.to(torch.float64) * roots.unsqueeze(-1)
        return offset if self.training else (offset / GRID).round() * GRID

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, C]` scores and mask `[B, N]` to logits `[B, C]`."""
        total = scores.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
        if (offset := self.offset(mask.sum(dim=1))) is not None:
            total = total + offset.to(total)
        if not self.normalised:
            return total
        return total / mask.sum(dim=1, keepdim=True).clamp_min(1).to(total).sqrt()
