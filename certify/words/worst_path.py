"""The worst text among all combinations of candidates: a shortest path through a lattice."""

from collections.abc import Iterator
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from layers.ngram_scores import NgramFinder, NgramScores

TOGETHER = 1 << 18
"""Choices of words whose scores are looked up together, if they are of several positions."""
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
        reached = lost.sum(dim=1, keepdim=True)
        losses[:, lost.shape[1] :] = reached
    rank = order.argsort(dim=1)
    changes = torch.arange(k + 1, device=rank.device)
    path = chosen.unsqueeze(1) * (rank.unsqueeze(1) < changes[None, :, None])
    return WorstTexts(torch.cat([own, own - losses], dim=1), path)


@torch.no_grad()
def worst_path(
    scores: NgramScores, candidates: Tensor, direction: Tensor, k: int | None = None
) -> WorstTexts:
    """Find the least score of words and n-grams or windows (Viterbi); see `worst_words`.

    A state is the last w - 1 choices and, with a limit, the number of changes so far; so the time
    is N (k + 1) S^w for a width of w. Without a limit texts are cut where w - 1 words in a row have
    no choice: the scores after such a cut do not depend on the choices before it.
    """
    words = functional.embedding(candidates, scores.word_table())
    words = (words * direction[:, None, None]).sum(dim=-1)
    # Rows are filled up with the word itself. It is one choice: the others are never chosen.
    again = candidates == candidates[..., :1]
    again[..., 0] = False
    words, candidates = words.masked_fill(again, torch.inf), candidates.masked_fill(again, 0)
    # Outside of the text all choices are word 0.
    width = scores.width
    padded = functional.pad(candidates, (0, 0, width - 1, 0))
    tables = [(scores.ngram_table(order), scores.finder(order)) for order in scores.orders]
    lattice = _Lattice(scores, tables, words, padded, direction)
    if k is not None or width == 1:
        return lattice.shortest(k)
    return _by_segments(lattice, ~again[..., 1:].all(dim=2))


def _by_segments(lattice: "_Lattice", choice: Tensor) -> WorstTexts:
    """Find the least score without a limit, of all segments of the texts side by side.

    `choice` `[R, N]` is True for a word with more than one candidate.
    """
    rows, length = choice.shape
    value = lattice.words.new_zeros(rows)
    path = choice.new_zeros(rows * length, dtype=torch.int64)
    # A segment starts after w - 1 words without a choice. A text starts with such words.
    context = functional.pad(choice, (lattice.scores.width - 1, 0))
    starts = ~context.unfold(1, lattice.scores.width - 1, 1)[:, :length].any(dim=2)
    first = starts.flatten().nonzero().flatten()
    lengths = first.diff(append=first.new_tensor([rows * length]))
    fixed = (lengths == 1) & ~choice.flatten()[first]
    # Word 0 fills up texts, and has no score.
    filled = fixed & (lattice.padded[:, -length:, 0].flatten()[first] == 0)
    first, lengths, fixed = first[~filled], lengths[~filled], fixed[~filled]
    groups = list(_alike(first, lengths, fixed))
    sizes = [(len(group_lengths), int(group_lengths.max())) for _, group_lengths in groups]
    apart = sum(2 * count * most + STEP * most + GROUP for count, most in sizes)
    if apart > rows * length + STEP * length:
        return lattice.shortest(None)
    for group_starts, group_lengths in groups:
        row, part = (
            torch.div(group_starts, length, rounding_mode="floor"),
            lattice.part(group_starts, group_lengths),
        )
        worst = part.shortest(None)
        value.index_add_(0, row, worst.value[:, 0])
        positions = group_starts.unsqueeze(1) + torch.arange(
            worst.path.shape[2], device=group_starts.device
        )
        inside = positions < (group_starts + group_lengths).unsqueeze(1)
        path[positions[inside]] = worst.path[:, 0][inside]
    return WorstTexts(value.unsqueeze(1), path.view(rows, 1, length))


def _alike(first: Tensor, lengths: Tensor, fixed: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the starts and lengths of segments, those of about the same length together."""
    if fixed.any():
        yield first[fixed], lengths[fixed]
    first, lengths = first[~fixed], lengths[~fixed]
    least, longest = 0, int(lengths.max()) if len(lengths) else 0
    while least < longest:
        most = max(2, 2 * least)
        some = (lengths > least) & (lengths <= most)
        if some.any():
            yield first[some], lengths[some]
        least = most


class _Lattice(NamedTuple):
    """The candidates of texts, and the tables of their scores.

    Attributes:
        scores: of words and n-grams or windows.
        tables: of the n-grams of each order, with their finders.
        words: `[R, N, S]` scores of the candidates alone; infinite for padding.
        padded: `[R, w - 1 + N, S]` candidates, after those of the words in front.
        direction: `[R, C]`.
    """

    scores: NgramScores
    tables: list[tuple[Tensor, NgramFinder]]
    words: Tensor
    padded: Tensor
    direction: Tensor

    def part(self, starts: Tensor, lengths: Tensor) -> Self:
        """Return the lattice of `[M]` segments, padded with word 0; starts are flat positions."""
        rows, length, size = self.words.shape
        row = torch.div(starts, length, rounding_mode="floor")
        longest = int(lengths.max())
        # One choice is enough for words without others.
        alone = longest == 1 and bool(self.words.flatten(0, 1)[starts, 1:].isinf().all())
        size = 1 if alone else size
        offsets = torch.arange(longest, device=starts.device)
        inside = (offsets < lengths.unsqueeze(1)).unsqueeze(2)
        at = (starts.unsqueeze(1) + offsets).clamp_max(rows * length - 1)
        words = self.words[..., :size].flatten(0, 1)[at]
        padding = words.new_full((size,), torch.inf)
        padding[0] = 0.0
        words = torch.where(inside, words, padding)
        front = self.padded.shape[1] - length
        before = torch.arange(front, device=starts.device)
        begin = (starts + row * front).unsqueeze(1)
        flat = self.padded[..., :size].flatten(0, 1)
        own = flat[(begin + front + offsets).clamp_max(len(flat) - 1)] * inside
        padded = torch.cat([flat[begin + before], own], dim=1)
        return self._replace(words=words, padded=padded, direction=self.direction[row])

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
            local = self.words[:, start:stop]
            for order, (table, find) in enumerate(self.tables, start=2):
                first = width - order + start
                ends = range(first, first + order)
                columns = [self.padded[:, at : at + stop - start] for at in ends]
                at, ngrams = find.among([column.flatten(0, 1) for column in columns])
                # The choice of one more word in front counts most.
                local = local.unsqueeze(2).expand(-1, -1, size, -1).flatten(2)
                # `at` are flat indices of [R, T, S^w] with an n-gram that has a score.
                row = torch.div(at, local[0].numel(), rounding_mode="floor")
                local.view(-1)[at] += (table[ngrams] * self.direction[row]).sum(dim=-1)
            if self.scores.net is not None:
                windows = _windows(self.padded[:, start : stop + width - 1].unfold(1, width, 1))
                of_windows = (self.scores.of_windows(windows) * self.direction[:, None, None]).sum(
                    -1
                )
                local = local.unsqueeze(2) + of_windows.view(rows, stop - start, -1, size)
            yield from local.flatten(2).unbind(1)


def _windows(candidates: Tensor) -> Tensor:
    """Return every choice of one candidate per position: `[R, T, S, w]` to `[R, T, S^w, w]`."""
    rows, steps, size, width = candidates.shape
    parts = [
        candidates[..., at]
        .view(rows, steps, *[1] * at, size, *[1] * (width - at - 1))
        .expand(rows, steps, *[size] * width)
        for at in range(width)
    ]
    return torch.stack(parts, dim=-1).view(rows, steps, -1, width)


def _counted(moved: Tensor, changed: Tensor, *, alone: bool) -> Tensor:
    """Move values of a changed word up by one change."""
    later = torch.full_like(moved, torch.inf)
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
