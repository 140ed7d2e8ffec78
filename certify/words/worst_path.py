"""The worst text among all combinations of candidates: a shortest path through a lattice."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from layers.ngram_scores import FoundNgrams, NgramScores

TOGETHER = 1 << 18
"""Choices of words whose scores are looked up together, if they are of several positions."""
AT_ONCE = 1 << 22
"""Choices of words that a step looks at in all of its texts."""
STEP, GROUP = 80, 1500
"""Cost of a step through texts side by side, and of a group of segments of about the same length,
each in words of one text (measured with 9 candidates and w = 2)."""


class WorstTexts(NamedTuple):
    """The worst texts of R rows, for each number of changes.

    Attributes:
        value: `[R, K]`, least score of the texts with at most 0, 1, ... changes; or `[R, 1]`
            without limit.
        path: `[R, K, N]` int64, for each position the chosen candidate; 0 is the word itself.
    """

    value: Tensor
    path: Tensor


def worst_words(
    scores: NgramScores, candidates: Tensor, direction: Tensor, k: int | None = None
) -> WorstTexts:
    """Find the least score of words alone: positions do not interact.

    Args:
        scores: of width 1; n-grams are not looked at.
        candidates: `[R, N, S]` ids, the word itself first; rows are filled up with the word itself,
            texts with 0.
        direction: `[R, C]`; the score of a text is its product with that of the classes.
        k: largest number of changes; None for any number.
    """
    table = scores.word_table()
    local = (table[candidates] * direction[:, None, None]).sum(dim=-1)
    least, chosen = local.min(dim=2)
    own = local[..., 0].sum(dim=1, keepdim=True)
    if k is None:
        return WorstTexts(least.sum(dim=1, keepdim=True), chosen.unsqueeze(1))
    lost, order = (local[..., 0] - least).sort(dim=1, descending=True, stable=True)
    # Positions are independent: the k largest losses, one by one.
    losses = lost[:, :k].cumsum(dim=1)
    if losses.shape[1] < k:
        losses = functional.pad(losses, (0, k - losses.shape[1]), mode="constant")
        # With more changes than words, the last entries repeat the sum of all losses.
        reached = lost.sum(dim=1, keepdim=True)
        losses[:, lost.shape[1] :] = reached
    # The inverse permutation: the rank of the word at each position.
    rank = order.argsort(dim=1)
    changes = torch.arange(k + 1, device=rank.device)
    path = chosen.unsqueeze(1) * (rank.unsqueeze(1) < changes[None, :, None])
    return WorstTexts(torch.cat([own, own - losses], dim=1), path)


def worst_results(scores: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Find the result of each word that takes most from the lead of a class over another.

    Args:
        scores: `[M, C]` of results, for each word its own first.
        starts: `[U + 1]`, the first result of each of U words.

    Returns:
        `[U, C, C]`, for classes y and j the largest loss of y's lead over j, and the first result
        with this loss.
    """
    classes = scores.shape[1]
    sizes, words = starts.diff(), starts[:-1]
    lost = scores.new_zeros(len(sizes), classes, classes)
    first = words[:, None, None].repeat(1, classes, classes)
    for y, j in permutations(range(classes), 2):
        lead = scores[:, y] - scores[:, j]
        least, first[:, y, j] = first_least(lead, sizes)
        lost[:, y, j] = lead[words] - least
    return lost, first


def first_least(values: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least value of each group, and the position of the first that is as small.

    Args:
        values: `[M]`, group by group.
        sizes: `[U]`, at least 1 each; their sum is M.

    Returns:
        `[U]` values and `[U]` positions in `values`; where a group has NaN, one of its positions.
    """
    least = torch.segment_reduce(values, "min", lengths=sizes)
    # Negated, so that NaN matches, too: a group without a match would keep a position past the end.
    at = (~(values > least.repeat_interleave(sizes))).nonzero().flatten()
    owner = torch.repeat_interleave(sizes)
    none = torch.full_like(sizes, len(values))
    return least, none.scatter_reduce_(0, owner[at], at, "amin")


@torch.no_grad()
def drop_dominated(scores: NgramScores, candidates: Tensor, sign: Tensor) -> Tensor:
    """Return candidates `[R, N, S]` without those that some other of the position makes needless.

    Whatever the other words are, a candidate adds at least its own score, and at most those of the
    best n-grams of each order that it can be in. The least score of `worst_path` stays the same.

    Args:
        scores: with one class, none of them below 0.
        candidates: see `worst_words`; a dropped one becomes the word itself.
        sign: `[R]`, 1 where the score is to be small, -1 where it is to be large.
    """
    keep = candidates != candidates[..., :1]
    keep[..., 0] = True
    least = functional.embedding(candidates, scores.word_table()).squeeze(-1)
    most = least.clone()
    for order in scores.orders:
        found = scores.finder(order).among(candidates, keep)
        values = scores.ngram_table(order)[found.rows, 0]
        for place, choice in zip(found.places, found.choices, strict=True):
            best = torch.zeros_like(most).flatten()
            best.scatter_reduce_(0, place * most.shape[2] + choice, values, "amax")
            most += best.view_as(most)
    small = sign.view(-1, 1, 1) > 0
    low, high = torch.where(small, least, -most), torch.where(small, most, -least)
    high, best = high.masked_fill(~keep, torch.inf).min(dim=2, keepdim=True)
    # The candidate that sets the limit stays, also where its own range is a point.
    dropped = (low >= high).scatter(2, best, value=False)
    return torch.where(dropped, candidates[..., :1], candidates)


@torch.no_grad()
def worst_path(
    scores: NgramScores, candidates: Tensor, direction: Tensor, k: int | None = None
) -> WorstTexts:
    """Find the least score of words and n-grams or windows (Viterbi); see `worst_words`.

    A state is the last w - 1 choices and, with a limit, the number of changes so far; so the time
    is N (k + 1) S^w for a width of w. With n-grams S counts only the candidates of a word that form
    an n-gram with candidates of its neighbours, and the best of the others. Without a limit texts
    are cut where w - 1 words in a row have no choice: the scores after such a cut do not depend on
    the choices before it.
    """
    words = functional.embedding(candidates, scores.word_table())
    words = (words * direction[:, None, None]).sum(dim=-1)
    # Rows are filled up with the word itself. It is one choice: the others are never chosen.
    keep = candidates != candidates[..., :1]
    keep[..., 0] = True
    ngrams = [scores.finder(order).among(candidates, keep) for order in scores.orders]
    if scores.net is None:
        keep = _useful(words, keep, ngrams, counted=k is not None)
    count, rank = keep.sum(dim=2), keep.cumsum(dim=2) - 1
    # `[R, N, S]`: the candidates that are kept, in their order.
    most = int(count.amax()) if count.numel() else 1  # texts may have no words
    slots = torch.zeros(*count.shape, most, dtype=torch.int64, device=count.device)
    row, position, candidate = keep.nonzero(as_tuple=True)
    slots[row, position, rank[row, position, candidate]] = candidate
    found = []
    for part in ngrams:
        values = scores.ngram_table(len(part.choices))[part.rows]
        values = (values * direction[part.places[0] // count.shape[1]]).sum(dim=-1)
        found.append((part.places[-1], rank.flatten(0, 1)[part.places, part.choices], values))
    real = torch.arange(slots.shape[2], device=count.device) < count.unsqueeze(2)
    # Outside of the text all choices are word 0.
    padded = functional.pad(candidates.gather(2, slots), (0, 0, scores.width - 1, 0))
    local = words.gather(2, slots).masked_fill(~real, torch.inf)
    lattice = _Lattice(scores, local, padded, count, found, direction)
    worst = _by_segments(lattice) if k is None and scores.width > 1 else _by_size(lattice, k)
    originals = slots.unsqueeze(1).expand(-1, worst.path.shape[1], -1, -1)
    return WorstTexts(worst.value, originals.gather(3, worst.path.unsqueeze(3)).squeeze(3))


def _useful(words: Tensor, real: Tensor, ngrams: Sequence[FoundNgrams], *, counted: bool) -> Tensor:
    """`[R, N, S]`: candidates that a worst text may need; of those in no n-gram only the best."""
    keep = torch.zeros_like(real)
    for part in ngrams:
        keep.view(-1, keep.shape[2])[part.places, part.choices] = True
    others = real & ~keep
    if counted:
        # The word itself costs no change.
        keep[..., 0], others[..., 0] = True, False
    best = words.masked_fill(~others, torch.inf).argmin(dim=2, keepdim=True)
    return keep.scatter(2, best, keep.gather(2, best) | others.any(dim=2, keepdim=True))


def _by_size(lattice: "_Lattice", k: int | None) -> WorstTexts:
    """Find the least scores of whole texts, those with about as many choices side by side."""
    rows, length = lattice.counts.shape
    limit = 1 if k is None else k + 1
    value = lattice.words.new_zeros(rows, limit)
    path = torch.zeros(rows, limit, length, dtype=torch.int64, device=value.device)
    if length:
        every = torch.arange(rows, device=value.device)
        for some in _alike(every, lattice.counts.amax(dim=1)):
            lengths = torch.full_like(some, length)
            for part, at in lattice.parts(some * length, lengths, limit):
                worst = part.shortest(k)
                value[some[at]], path[some[at]] = worst.value, worst.path
    return WorstTexts(value, path)


def _by_segments(lattice: "_Lattice") -> WorstTexts:
    """Find the least score without a limit, of all segments of the texts side by side."""
    rows, length = lattice.counts.shape
    choice = lattice.counts > 1
    value = lattice.words.new_zeros(rows)
    path = choice.new_zeros(rows * length, dtype=torch.int64)
    # A segment starts after w - 1 words without a choice. A text starts with such words.
    context = functional.pad(choice, (lattice.scores.width - 1, 0))
    starts = ~context.unfold(1, lattice.scores.width - 1, 1)[:, :length].any(dim=2)
    first = starts.flatten().nonzero().flatten()
    lengths = first.diff(append=first.new_tensor([rows * length]))
    # Word 0 fills up texts, and has no score.
    filled = (lattice.padded[:, -length:, 0].flatten()[first] == 0) & (lengths == 1)
    owner = starts.flatten().cumsum(0) - 1
    sizes = torch.zeros_like(first).scatter_reduce_(0, owner, lattice.counts.flatten(), "amax")
    first, lengths, sizes = first[~filled], lengths[~filled], sizes[~filled]
    groups = [
        alike[some]
        for alike in _alike(torch.arange(len(first), device=first.device), lengths)
        for some in _alike(torch.arange(len(alike), device=first.device), sizes[alike])
    ]
    apart = sum(
        2 * int(lengths[some].sum()) + STEP * int(lengths[some].amax()) + GROUP for some in groups
    )
    if apart > rows * length + STEP * length:
        return _by_size(lattice, None)
    for some in groups:
        for part, at in lattice.parts(first[some], lengths[some], 1):
            begin, size = first[some[at]], lengths[some[at]]
            worst = part.shortest(None)
            row = torch.div(begin, length, rounding_mode="floor")
            # Segments of one text share a row: their values add up.
            value.index_add_(0, row, worst.value[:, 0])
            offsets = torch.arange(worst.path.shape[2], device=begin.device)
            positions, inside = begin.unsqueeze(1) + offsets, offsets < size.unsqueeze(1)
            path[positions[inside]] = worst.path[:, 0][inside]
    return WorstTexts(value.unsqueeze(1), path.view(rows, 1, length))


def _alike(items: Tensor, sizes: Tensor) -> Iterator[Tensor]:
    """Yield the items in groups of about the same size: 1, 2, 3 to 4, 5 to 8, ..."""
    least, largest = 0, int(sizes.amax()) if len(sizes) else 0
    while least < largest:
        most = max(1, 2 * least)
        some = (sizes > least) & (sizes <= most)
        if some.any():
            yield items[some]
        least = most


class _Lattice(NamedTuple):
    """The candidates of texts, and their scores.

    Attributes:
        scores: of words and n-grams or windows.
        words: `[R, N, S]` scores of the candidates alone; infinite for padding.
        padded: `[R, w - 1 + N, S]` candidates, after those of the words in front.
        counts: `[R, N]`, numbers of candidates.
        ngrams: for each order the positions of last words in the flattened texts `[M]`, their
            candidates `[order, M]` and scores `[M]`.
        direction: `[R, C]`.
    """

    scores: NgramScores
    words: Tensor
    padded: Tensor
    counts: Tensor
    ngrams: Sequence[tuple[Tensor, Tensor, Tensor]]
    direction: Tensor

    def parts(self, starts: Tensor, lengths: Tensor, limit: int) -> Iterator[tuple[Self, Tensor]]:
        """Yield lattices of segments, padded with word 0, and which segments each has.

        Starts are flat positions; memory is bounded, for `limit` numbers of changes.
        """
        size = self._size(starts, lengths)
        together = max(1, AT_ONCE // (limit * size**self.scores.width))
        for at in torch.split(torch.arange(len(starts), device=starts.device), together):
            yield self._part(starts[at], lengths[at], size), at

    def _size(self, starts: Tensor, lengths: Tensor) -> int:
        offsets = torch.arange(int(lengths.amax()), device=starts.device)
        # The last segments may reach past the end; `inside` masks what they read there.
        at = (starts.unsqueeze(1) + offsets).clamp_max(self.counts.numel() - 1)
        inside = offsets < lengths.unsqueeze(1)
        return int((self.counts.flatten()[at] * inside).amax())

    def _part(self, starts: Tensor, lengths: Tensor, size: int) -> Self:
        rows, length, _ = self.words.shape
        row = torch.div(starts, length, rounding_mode="floor")
        longest = int(lengths.amax())
        offsets = torch.arange(longest, device=starts.device)
        inside = offsets < lengths.unsqueeze(1)
        at = (starts.unsqueeze(1) + offsets).clamp_max(rows * length - 1)
        # Past the end of a segment no choice costs anything.
        words = self.words[..., :size].flatten(0, 1)[at].where(inside.unsqueeze(2), 0.0)
        front = self.padded.shape[1] - length
        before = torch.arange(front, device=starts.device)
        begin = (starts + row * front).unsqueeze(1)
        flat = self.padded[..., :size].flatten(0, 1)
        own = flat[(begin + front + offsets).clamp_max(len(flat) - 1)] * inside.unsqueeze(2)
        count = torch.where(inside, self.counts.flatten()[at], 1)
        # The positions of segments in place of those of texts.
        moved = torch.full((rows * length,), -1, device=starts.device)
        moved[at[inside]] = torch.arange(inside.numel(), device=starts.device).view_as(at)[inside]
        ngrams = []
        for ends, choices, values in self.ngrams:
            some = (moved[ends] >= 0).nonzero().flatten()
            ngrams.append((moved[ends[some]], choices[:, some], values[some]))
        padded = torch.cat([flat[begin + before], own], dim=1)
        return self._replace(
            words=words, padded=padded, counts=count, ngrams=ngrams, direction=self.direction[row]
        )

    def shortest(self, k: int | None) -> WorstTexts:
        """Return the least scores with at most 0 to k changes, or without a limit."""
        rows, _, size = self.words.shape
        width, limit = self.scores.width, 1 if k is None else k + 1
        # Index of a state: its last choice counts least.
        states = size ** (width - 1)
        value = self.words.new_full((rows, limit, states), torch.inf)
        # Before the text: word 0 everywhere, no changes.
        value[:, 0, 0] = 0.0
        choices = torch.arange(size if width == 1 else states, device=value.device)
        changed = choices % size > 0
        back = []
        for local in self.steps():
            if width == 1:
                moved = value + local.view(rows, 1, size)
            else:
                moved = value.unsqueeze(-1) + local.view(rows, 1, states, size)
            # [R, K, S^w] with the oldest choice as a dimension of its own.
            moved = moved.view(rows, limit, size, -1)
            # Dimension 2 is the oldest choice, which leaves the state; the last is the new state.
            if k is not None:
                moved = _counted(moved, changed, alone=width == 1)
            value, where = moved.min(dim=2)
            # int16: back pointers are the largest tensors of a long text.
            back.append(where.to(torch.int16))
        return _trace(value, back, size, width, counted=k is not None)

    def steps(self) -> Iterator[Tensor]:
        """Yield for each position `[R, S^w]` scores of its word with all choices before."""
        rows, length, size = self.words.shape
        width = self.scores.width
        together = max(1, TOGETHER // max(1, rows * size**width))
        for start in range(0, length, together):
            stop = min(start + together, length)
            local = self.words[:, start:stop].clone()
            for ends, choices, values in self.ngrams:
                # The choice of one more word in front counts most.
                local = local.unsqueeze(2).expand(-1, -1, size, -1).flatten(2)
                row = torch.div(ends, length, rounding_mode="floor")
                column = ends - row * length - start
                some = ((column >= 0) & (column < stop - start)).nonzero().flatten()
                at = row[some] * (stop - start) + column[some]
                for choice in choices:
                    at = at * size + choice[some]
                local.view(-1)[at] += values[some]
            if self.scores.net is not None:
                local = local.unsqueeze(2).expand(-1, -1, size ** (width - 1), -1).flatten(2)
                at, windows = self._windows(start, stop)
                of_windows = self.scores.of_windows(windows)
                row = torch.div(at, local[0].numel(), rounding_mode="floor")
                local.view(-1)[at] += (of_windows * self.direction[row]).sum(dim=-1)
            yield from local.flatten(2).unbind(1)

    def _windows(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return flat indices of `[R, T, S^w]` that are choices, and `[M, w]` ids of these."""
        rows, _, size = self.words.shape
        width = self.scores.width
        # Before the text there is one choice: word 0.
        count = functional.pad(self.counts, (width - 1, 0), value=1)
        real = torch.arange(size, device=count.device) < count.unsqueeze(2)
        fits = real[:, start:stop]
        for i in range(1, width):
            fits = (fits.unsqueeze(3) & real[:, start + i : stop + i].unsqueeze(2)).flatten(2)
        at = fits.flatten().nonzero().flatten()
        row, column, *choices = torch.unravel_index(at, (rows, stop - start, *[size] * width))
        ids = [self.padded[row, column + start + i, choice] for i, choice in enumerate(choices)]
        return at, torch.stack(ids, dim=1)


def _counted(moved: Tensor, changed: Tensor, *, alone: bool) -> Tensor:
    """Move values of a changed word up by one change."""
    later = torch.full_like(moved, torch.inf)
    # A changed word in the last row would be one change too many: that row falls out.
    later[:, 1:] = moved[:, :-1]
    where = changed.view(1, 1, -1, 1) if alone else changed.view(1, 1, 1, -1)
    return torch.where(where, later, moved)


def _trace(
    value: Tensor, back: list[Tensor], size: int, width: int, *, counted: bool
) -> WorstTexts:
    """Follow the choices back from the best ends."""
    rows, limit, states = value.shape
    best, state = value.min(dim=2)
    # With at most so many changes.
    best, used = best.cummin(dim=1)
    state = state.gather(1, used)
    path = state.new_zeros(rows, limit, len(back))
    row = torch.arange(rows, device=value.device).unsqueeze(1)
    for position in reversed(range(len(back))):
        oldest = back[position][row, used, state].long()
        chosen = oldest if width == 1 else state % size
        path[:, :, position] = chosen
        if width > 1:
            # Undo one shift: drop the newest choice, and put the oldest in front.
            state = oldest * (states // size) + state // size
        if counted:
            used = used - (chosen > 0).long()
    return WorstTexts(best, path)
